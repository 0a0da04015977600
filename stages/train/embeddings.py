"""Train only the token embeddings that the train split uses, with the same result and less memory and time.

Without a gradient, an embedding changes only by weight decay, which multiplies all such embeddings by the
same factor. So one row of ones, which no token uses, is trained in their place: it becomes this factor.
Gradients and the state of the optimizer are as large as what is trained, and MRPC uses 12,063 of the 30,522
tokens of BERT.
"""

from collections.abc import MutableMapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

LARGEST_SHARE = 0.5
"""Largest share of the vocabulary that the train split may use: with more, little is saved."""
_PART = 2**24
"""Token ids that are read at a time."""


class UsedEmbeddings(nn.Module):
    """Takes the place of the token embeddings of a model.

    An embedding is the product of a row of ``weight``, which is trained, and a row of ``rest``, which is
    frozen:

    - used token: its own row of ``weight``, and the last row of ``rest``, which is ones;
    - other token: the last row of ``weight``, which is ones before the training, and its own row of ``rest``.

    ``rows`` has these two row numbers for each token of the vocabulary, int64 of shape ``(2, tokens)``.
    """

    def __init__(self, table: nn.Embedding, used: Tensor) -> None:
        """Divide ``table`` by ``used``, bool of shape ``(tokens,)``."""
        super().__init__()
        unused = ~used
        values = table.weight.detach()
        ones = values.new_ones(1, table.embedding_dim)
        self.weight = nn.Parameter(torch.cat([values[used], ones]))
        self.rest = nn.Parameter(torch.cat([values[unused], ones]), requires_grad=False)

        # a token without a row of its own has the last one
        rows_of_weight = torch.where(used, used.cumsum(0) - 1, used.sum())
        rows_of_rest = torch.where(unused, unused.cumsum(0) - 1, unused.sum())
        # not a buffer: DDP would send it in each step
        self.rows = nn.Parameter(torch.stack([rows_of_weight, rows_of_rest]), requires_grad=False)

        self.train(table.training)
        self.padding: int | None = None
        if table.padding_idx is not None:
            self.padding = int(rows_of_weight[table.padding_idx])

    def forward(self, ids: Tensor) -> Tensor:
        """Return the embeddings, shape ``(rows, tokens, features)``, of ids, shape ``(rows, tokens)``."""
        trained = functional.embedding(self.rows[0, ids], self.weight, self.padding)
        if self.training:  # all tokens are used ones, whose row of ``rest`` is ones
            return trained
        return trained * self.rest[self.rows[1, ids]]

    def table(self) -> Tensor:
        """Return the embeddings of the whole vocabulary, shape ``(tokens, features)``."""
        return self.weight.detach()[self.rows[0]] * self.rest[self.rows[1]]


def train_used_embeddings(model: PreTrainedModel, ids: NDArray[np.integer], padding: int) -> None:
    """Let a model train only the embeddings of ``padding`` and of the tokens in ``ids``, if they are few.

    Nothing changes if the embeddings are frozen, or are not a table of their own: T5 shares it, and others
    scale it or have none.
    """
    try:
        table = model.get_input_embeddings()
    except NotImplementedError:  # CANINE hashes characters
        return
    if type(table) is not nn.Embedding:
        return
    parameters = model.named_parameters(remove_duplicate=False)
    is_shared = sum(parameter is table.weight for _, parameter in parameters) > 1
    if is_shared or not table.weight.requires_grad:
        return

    # the ids are mapped from a file: a part of them is in memory at a time
    used = np.zeros(table.num_embeddings, dtype=bool)
    used[padding] = True
    for start in range(0, len(ids), _PART):
        used[ids[start : start + _PART]] = True
    if used.mean() <= LARGEST_SHARE:
        model.set_input_embeddings(UsedEmbeddings(table, torch.from_numpy(used)))


def used_embeddings(model: nn.Module) -> tuple[str, UsedEmbeddings] | None:
    """Return the name of the embeddings of a model, and themselves, if only some of them are trained."""
    for name, module in model.named_modules():
        if isinstance(module, UsedEmbeddings):
            return name, module
    return None


def fold_embeddings(model: nn.Module, weights: MutableMapping[str, Tensor]) -> None:
    """Replace the parts of the embeddings in the weights of a model by the table of the whole vocabulary."""
    divided = used_embeddings(model)
    if divided is None:
        return
    name, embeddings = divided
    for part, _ in embeddings.named_parameters():
        del weights[f"{name}.{part}"]
    weights[f"{name}.weight"] = embeddings.table()
