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

from tuneline.params import TrainParams

LARGEST_SHARE = 0.5
"""Of the tokens of the vocabulary: if the train split uses more, little is saved."""
LINEAR_OPTIMIZERS = ("adamw", "sgd")
"""Optimizers whose weight decay multiplies a weight without a gradient by a factor that does not depend on it."""
_PART = 2**24
"""Token ids that are read at a time."""


class UsedEmbeddings(nn.Module):
    """Takes the place of the token embeddings of a model.

    An embedding is the product of a row of ``weight``, which is trained, and one of ``rest``, which is
    frozen. That of a used token is its row of ``weight`` and ones; that of another token is the last row of
    ``weight``, ones before the training, and its row of ``rest``.
    """

    def __init__(self, table: nn.Embedding, used: Tensor) -> None:
        """Divide ``table`` by ``used``, bool of shape ``(tokens,)``."""
        super().__init__()
        values = table.weight.detach()
        ones = values.new_ones(1, table.embedding_dim)
        self.weight = nn.Parameter(torch.cat([values[used], ones]))
        self.rest = nn.Parameter(torch.cat([values[~used], ones]), requires_grad=False)
        rows = [torch.where(chosen, chosen.cumsum(0) - 1, chosen.sum()) for chosen in (used, ~used)]
        self.rows = nn.Parameter(
            torch.stack(rows), requires_grad=False
        )  # not a buffer: DDP would send it in each step
        self.train(table.training)
        self.padding = None if table.padding_idx is None else int(rows[0][table.padding_idx])

    def forward(self, ids: Tensor) -> Tensor:
        """Return the embeddings of token ids, shape ``(rows, tokens)``; in training, all of them are used ones."""
        trained = functional.embedding(self.rows[0, ids], self.weight, self.padding)
        return trained if self.training else trained * self.rest[self.rows[1, ids]]

    def table(self) -> Tensor:
        """Return the embeddings of the whole vocabulary, shape ``(tokens, features)``."""
        return self.weight.detach()[self.rows[0]] * self.rest[self.rows[1]]


def train_used_embeddings(
    model: PreTrainedModel, params: TrainParams, ids: NDArray[np.integer], padding: int
) -> None:
    """Let a model train only the embeddings of ``padding`` and of the tokens in ``ids``, if they are few.

    Nothing changes if the embeddings are frozen, or are not a table of their own: T5 shares it, and others
    scale it or have none.
    """
    try:
        table = model.get_input_embeddings()
    except NotImplementedError:  # CANINE hashes characters
        return
    if (
        type(table) is not nn.Embedding
        or not table.weight.requires_grad
        or params.optimizer not in LINEAR_OPTIMIZERS
    ):
        return
    if sum(parameter is table.weight for _, parameter in model.named_parameters(remove_duplicate=False)) > 1:
        return
    used = np.zeros(table.num_embeddings, dtype=bool)
    used[padding] = True
    for start in range(0, len(ids), _PART):
        used[ids[start : start + _PART]] = True
    if used.mean() <= LARGEST_SHARE:
        model.set_input_embeddings(UsedEmbeddings(table, torch.from_numpy(used)))


def used_embeddings(model: nn.Module) -> tuple[str, UsedEmbeddings] | None:
    """Return the name of the embeddings of a model, and themselves, if only some of them are trained."""
    return next(
        ((name, module) for name, module in model.named_modules() if isinstance(module, UsedEmbeddings)), None
    )


def fold_embeddings(model: nn.Module, weights: MutableMapping[str, Tensor]) -> None:
    """Replace the parts of the embeddings in ``weights``, those of ``model`` by name, by the table of the whole vocabulary."""
    if used := used_embeddings(model):
        name, embeddings = used
        for part, _ in embeddings.named_parameters():
            del weights[f"{name}.{part}"]
        weights[f"{name}.weight"] = embeddings.table()
