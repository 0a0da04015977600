"""Model architectures: properties that the stages need and that ``config.json`` does not state.

The configuration classes of transformers hold some of them, but importing one imports torch.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tuneline.core.params import Params
from tuneline.core.paths import BASE, BASE_RECORD
from tuneline.core.runtime.errors import StageError
from tuneline.core.stage.provenance import BaseSource

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

MODULES = "modules.json"
"""File of every checkpoint of sentence-transformers."""
POOLING = "1_Pooling/config.json"
"""File that says how vectors of tokens become that of a text."""
Pooling = Literal["mean", "cls"]
"""``mean`` of the last hidden states over all tokens, or that of the first token."""


@dataclass(frozen=True)
class Architecture:
    """Properties of one ``model_type``.

    Attributes:
        token_type_ids: True if its default configuration has more than one token type. RoBERTa's
            configuration class has 2, but its published models have 1.
        padded_positions: True if position ids start after the padding id, so that it takes fewer tokens than
            it has positions.
        after_attention: Module of a layer that directly follows attention, for models whose classifier reads
            the first token only. It takes only tensors of shape ``(batch, tokens, hidden)`` and, like all
            modules after it, treats every token independently. tests/tuneline/training/test_model.py compares
            each with the unchanged layer.
        query: Linear layer of the queries in a layer, if the module around it computes attention as its
            configuration says.
        tokenizer_class: Name of the tokenizer class of its checkpoints, for those that do not state it.
            The table of transformers has more of them, but imports torch, which takes seconds and 300 MB.
    """

    token_type_ids: bool = False
    padded_positions: bool = False
    after_attention: str | None = None
    query: str | None = None
    tokenizer_class: str | None = None


_AS_BERT: dict[str, Any] = {"after_attention": "attention.output", "query": "attention.self.query"}
ARCHITECTURES = {
    "albert": Architecture(token_type_ids=True, tokenizer_class="AlbertTokenizer"),
    "bert": Architecture(token_type_ids=True, **_AS_BERT, tokenizer_class="BertTokenizer"),
    "big_bird": Architecture(token_type_ids=True),
    "camembert": Architecture(padded_positions=True, **_AS_BERT, tokenizer_class="CamembertTokenizer"),
    "convbert": Architecture(token_type_ids=True),
    "data2vec-text": Architecture(padded_positions=True),
    "deberta-v2": Architecture(after_attention="attention.output", tokenizer_class="DebertaV2Tokenizer"),
    "distilbert": Architecture(
        after_attention="sa_layer_norm", query="attention.q_lin", tokenizer_class="DistilBertTokenizer"
    ),
    "electra": Architecture(token_type_ids=True, **_AS_BERT, tokenizer_class="ElectraTokenizer"),
    "ernie": Architecture(token_type_ids=True),
    "esm": Architecture(padded_positions=True),
    "fnet": Architecture(token_type_ids=True),
    "funnel": Architecture(token_type_ids=True),
    "ibert": Architecture(padded_positions=True),
    "longformer": Architecture(padded_positions=True),
    "luke": Architecture(padded_positions=True),
    "megatron-bert": Architecture(token_type_ids=True),
    "mobilebert": Architecture(token_type_ids=True),
    "mpnet": Architecture(
        padded_positions=True, after_attention="attention.LayerNorm", tokenizer_class="MPNetTokenizer"
    ),
    "nomic_bert": Architecture(token_type_ids=True),
    "nystromformer": Architecture(token_type_ids=True),
    "rembert": Architecture(token_type_ids=True),
    "roberta": Architecture(padded_positions=True, **_AS_BERT, tokenizer_class="RobertaTokenizer"),
    "roberta-prelayernorm": Architecture(padded_positions=True),
    "roformer": Architecture(token_type_ids=True),
    "squeezebert": Architecture(token_type_ids=True),
    "xlm-roberta": Architecture(padded_positions=True, **_AS_BERT, tokenizer_class="XLMRobertaTokenizer"),
    "xlm-roberta-xl": Architecture(padded_positions=True),
    "xmod": Architecture(padded_positions=True),
}
"""Properties by ``model_type``. A type that is not listed has the defaults of ``Architecture``."""


def architecture_of(config: Mapping[str, Any]) -> Architecture:
    """Return the properties of a model from its configuration."""
    return ARCHITECTURES.get(config.get("model_type", ""), Architecture())


def restrict_last_layer(model: "PreTrainedModel") -> "nn.Module | None":
    """Restrict the last layer to the first token after attention, if the classifier reads no other one.

    After the last attention, no information passes between tokens. So attention output (a twelfth of a
    layer's arithmetic) and the feed-forward part (two thirds) are needed for the first token only. Neither
    the names of the weights nor the saved files change. Layers that share their weights (ALBERT) are not
    restricted, and neither is a single one, after which DeBERTa has a convolution.

    Returns:
        The last layer; ``None`` if it is not restricted.
    """
    from torch import nn

    architecture = architecture_of(model.config.to_dict())
    module_lists = [module for module in model.base_model.modules() if isinstance(module, nn.ModuleList)]
    layers = max(module_lists, key=len, default=nn.ModuleList())
    if architecture.after_attention is None or len(layers) < 2:
        return None
    last = layers[-1]
    last.get_submodule(architecture.after_attention).register_forward_pre_hook(_keep_first_token)
    return last


def _keep_first_token(_: "nn.Module", inputs: "tuple[Tensor, ...]") -> "tuple[Tensor, ...]":
    """Cut the inputs of a module, shape ``(batch, tokens, features)``, to the first token."""
    return tuple(tensor[:, :1] for tensor in inputs)


def token_limit(config: Mapping[str, Any]) -> int | None:
    """Return the number of tokens that a model takes, special tokens included; ``None``: no limit."""
    positions = config.get("max_position_embeddings")
    if not isinstance(positions, int):
        return None
    if not architecture_of(config).padded_positions:
        return positions
    # Position ids start behind the padding id, which is 1 in the default configurations.
    padding_id = config.get("pad_token_id")
    if padding_id is None:
        padding_id = 1
    return positions - 1 - padding_id


def has_token_type_ids(config: Mapping[str, Any]) -> bool:
    """Return True if a model of a configuration tells the texts of a pair apart by ``token_type_ids``."""
    return architecture_of(config).token_type_ids and config.get("type_vocab_size", 2) > 1


def pooling_of(folder: Path) -> Pooling:
    """Return the pooling of the checkpoint in a folder.

    It is ``mean`` where no file says that it is ``cls``: what a checkpoint without such files has learned of
    a text is spread over its tokens (Reimers & Gurevych 2019, section 4.1).
    """
    path = folder / POOLING
    if not path.is_file():
        return "mean"
    values = json.loads(path.read_text(encoding="utf-8"))
    # one key for each kind was written before sentence-transformers 5.4
    by_kind = values.get("pooling_mode_cls_token") and not values.get("pooling_mode_mean_tokens")
    return "cls" if by_kind or values.get("pooling_mode") == "cls" else "mean"


def read_base(params: Params) -> BaseSource:
    """Return the origin of ``models/base/``.

    Raises:
        DataError: The stage ``base`` has not run.
        StageError: It ran with other parameters.
    """
    base = BaseSource.read(BASE_RECORD, "The stage 'base' writes it: run `dvc repro base`.")
    name = base.checkpoint.name if base.checkpoint else None
    if name != params.model.checkpoint:
        raise StageError(
            f"model.checkpoint is {params.model.checkpoint}, but {BASE} has {name or 'none'}.",
            "Run `dvc repro base`.",
        )
    return base
