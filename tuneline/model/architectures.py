"""Model architectures: the properties that tokenization and training need and that a configuration file does not state.

The configuration classes of transformers hold some of them, but importing one imports torch.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuneline.core.base_source import BaseSource
from tuneline.core.errors import ParamsError, StageError
from tuneline.core.paths import BASE, BASE_RECORD
from tuneline.params import Params

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


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
            modules after it, treats every token independently. tests/stages/train/test_model.py compares each
            with the unchanged layer.
        query: Linear layer of the queries in a layer, if the module around it computes attention as its
            configuration says.
        tokenizer_class: Name of the tokenizer class in ``tokenizer_config.json`` of its checkpoints.
            ``AutoTokenizer`` selects the same class, but imports torch, which takes seconds and 300 MB.
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

DIRECT_TOKENIZERS = frozenset(
    entry.tokenizer_class for entry in ARCHITECTURES.values() if entry.tokenizer_class
)
"""Tokenizer classes that load without importing torch."""


def architecture_of(config: Mapping[str, Any]) -> Architecture:
    """Return the properties of a model from its configuration."""
    return ARCHITECTURES.get(config.get("model_type", ""), Architecture())


def token_limit(config: Mapping[str, Any]) -> int | None:
    """Return the number of tokens that a model takes, special tokens included; ``None`` if its configuration sets no limit."""
    positions = config.get("max_position_embeddings")
    if not isinstance(positions, int):
        return None
    if not architecture_of(config).padded_positions:
        return positions
    padding = config.get("pad_token_id")
    return positions - 1 - (1 if padding is None else padding)


def has_token_type_ids(config: Mapping[str, Any]) -> bool:
    """Return True if a model created from a configuration distinguishes the two texts of a pair by ``token_type_ids``."""
    return architecture_of(config).token_type_ids and config.get("type_vocab_size", 2) > 1


UNLIMITED = 10**9
"""A ``model_max_length`` from here on means no limit; transformers writes 1e30."""


def load_tokenizer(folder: Path, label: str) -> "PreTrainedTokenizerFast":
    """Load a fast tokenizer with a padding token from a folder as ``save_pretrained`` writes it.

    The label, its parameter and name, is for messages.
    """
    import transformers

    try:
        class_name = str(_read_json(folder / "tokenizer_config.json").get("tokenizer_class")).removesuffix(
            "Fast"
        )
        loader = (
            getattr(transformers, class_name)
            if class_name in DIRECT_TOKENIZERS
            else transformers.AutoTokenizer
        )
        tokenizer = loader.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # a broken file raises errors of many types
        first = str(error).strip().split("\n", 1)[0]
        hint = "A tokenizer that save_pretrained wrote has tokenizer.json and tokenizer_config.json."
        raise ParamsError(f"{label}: the tokenizer cannot be loaded: {first}", hint) from None
    if not isinstance(tokenizer, transformers.PreTrainedTokenizerFast):
        raise ParamsError(
            f"{label} has only a slow tokenizer ({type(tokenizer).__name__}).",
            "The pipeline needs a fast tokenizer (a tokenizer.json). Choose another checkpoint, or convert"
            " this one.",
        )
    if tokenizer.pad_token_id is None:
        raise ParamsError(
            f"{label}: the tokenizer has no padding token, which batches need.",
            "Save a copy with one (tokenizer.pad_token = ...;"
            " tokenizer.save_pretrained('models/source/NAME')) and name that folder.",
        )
    return tokenizer


def checkpoint_limit(tokenizer: "PreTrainedTokenizerFast", folder: Path) -> int | None:
    """Return the number of tokens that a checkpoint takes, from its tokenizer, else from its model; ``None`` if neither sets a limit."""
    if tokenizer.model_max_length < UNLIMITED:
        return int(tokenizer.model_max_length)
    return token_limit(_read_json(folder / "config.json"))


def _read_json(path: Path) -> dict[str, Any]:
    """Return the contents of a JSON file; empty if there is none."""
    values = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return values if isinstance(values, dict) else {}


def read_base(params: Params) -> BaseSource:
    """Return the origin of ``models/base/``; raise a StageError if the stage ``base`` has not run, or ran with other parameters."""
    source = BaseSource.read(BASE_RECORD, "The stage 'base' writes it: run `dvc repro base`.")
    named = {
        "model.checkpoint": (params.model.checkpoint, source.checkpoint),
        "tokenize.tokenizer": (params.tokenize.tokenizer or params.model.checkpoint, source.tokenizer),
    }
    for key, (name, present) in named.items():
        if name != (present and present.name):
            raise StageError(
                f"{key} is {name}, but {BASE} has {present.name if present else 'none'}.",
                "Run `dvc repro base`.",
            )
    return source
