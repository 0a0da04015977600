"""The files of a tokenizer, and what its settings say: special tokens, limit, inputs of its model.

How a text becomes tokens is not read here: ``tokenizer.json`` says that alone.
"""

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tuneline.model.tokens.architectures import ARCHITECTURES, architecture_of, has_token_type_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


TOKENIZER_JSON = "tokenizer.json"
"""The fast tokenizer, whole: what the library tokenizers loads."""
TOKENIZER_CONFIG = "tokenizer_config.json"
"""Settings for transformers: class, special tokens, length, side of the truncation."""
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
"""Special tokens, which newer configurations have, too."""
ADDED_TOKENS = "added_tokens.json"
"""Tokens that were added to the vocabulary, with their ids."""
LONG_TEXT_JSON = "long_text.json"
"""What becomes of texts that are longer than the model; without it, they are truncated.

Tuneline writes and reads it (``tuneline/model/tokens/long_text.py``).
"""
VOCAB_TXT = "vocab.txt"
"""Vocabulary of WordPiece, one token per line."""
VOCAB_JSON = "vocab.json"
"""Vocabulary of BPE: ids by token."""
SENTENCEPIECE_FILES = (
    "spm.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "sentencepiece.model",
    "tokenizer.model",
)
"""Names of a SentencePiece model."""
FAST_TOKENIZER_FILES = (TOKENIZER_JSON, TOKENIZER_CONFIG)
"""Files of a tokenizer that this pipeline has saved."""
TOKENIZER_FILES = (
    *FAST_TOKENIZER_FILES,
    SPECIAL_TOKENS_MAP,
    ADDED_TOKENS,
    VOCAB_TXT,
    VOCAB_JSON,
    "merges.txt",
    "bpe.codes",
    *SENTENCEPIECE_FILES,
)
"""Files that a tokenizer of a checkpoint may have."""
SETTINGS_FILES = frozenset({TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP, ADDED_TOKENS})
"""Files of ``TOKENIZER_FILES`` that are no tokenizer by themselves: the vocabulary is in another one."""
SPECIAL_TOKENS = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)
"""Keys of the special tokens in a configuration."""
UNLIMITED = 10**9
"""A ``model_max_length`` from here on means no limit; transformers writes 1e30."""
TOKEN_TYPES = "token_type_ids"  # noqa: S105 - the name of an input


@dataclass(frozen=True)
class TokenizerSettings:
    """The settings of a tokenizer in a folder.

    Attributes:
        stated: Contents of ``tokenizer_config.json``; empty without it.
        model: Contents of the ``config.json`` beside it; empty without it.
        special_tokens: Special tokens by their key. ``None``: it is stated that there is none.
    """

    stated: Mapping[str, Any]
    model: Mapping[str, Any]
    special_tokens: Mapping[str, str | None]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the settings of a folder. Every file may be missing, as in old checkpoints."""
        stated = read_object(folder / TOKENIZER_CONFIG)
        special_tokens = {}
        for source in (read_object(folder / SPECIAL_TOKENS_MAP), stated):
            for key in SPECIAL_TOKENS:
                if key in source:
                    special_tokens[key] = _content(source[key])
        return cls(stated, read_object(folder / "config.json"), special_tokens)

    @property
    def class_name(self) -> str | None:
        """Name of the class, without the ending ``Fast``; ``None`` if no file says it.

        Old checkpoints state it in ``config.json``, or leave it to the type of the model.
        """
        stated = self.stated.get("tokenizer_class") or self.model.get("tokenizer_class")
        if stated is None:
            return self.model_class_name
        return str(stated).removesuffix("Fast")

    @property
    def model_class_name(self) -> str | None:
        """Name of the class that models of this type have; ``None`` if the type is unknown."""
        name = architecture_of(self.model).tokenizer_class
        if name is None and "model_type" in self.model:
            # it imports torch, which takes seconds, so only for types that the table lacks
            from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

            name = TOKENIZER_MAPPING_NAMES.get(self.model["model_type"])
        return name

    @property
    def has_own_code(self) -> bool:
        """True if the repository has code of its own for the tokenizer."""
        auto_map = self.stated.get("auto_map") or {}
        return not isinstance(auto_map, dict) or "AutoTokenizer" in auto_map

    @property
    def max_length(self) -> int | None:
        """Number of tokens that the configuration allows; ``None``: it states no limit."""
        limit = self.stated.get("model_max_length", self.stated.get("max_len"))
        if limit is None or limit >= UNLIMITED:
            return None
        return int(limit)

    def tokens_of(self, tokenizer_class: "type[PreTrainedTokenizerBase] | None") -> dict[str, str | None]:
        """Return the special tokens, completed by the default ones of a class."""
        tokens: dict[str, str | None] = {}
        if tokenizer_class is not None:
            for key, default in class_defaults(tokenizer_class).items():
                if key in SPECIAL_TOKENS:
                    tokens[key] = _content(default)
        return tokens | dict(self.special_tokens)

    def input_names(self, tokenizer_class: "type[PreTrainedTokenizerBase] | None") -> list[str]:
        """Return the names of the inputs of the model.

        Where they are not stated, the model has token types if its class of tokenizers says so, or its own
        configuration: in transformers 5, the classes of ALBERT, RemBERT and Funnel do not say it any more.
        """
        stated = self.stated.get("model_input_names")
        if stated:
            return list(stated)

        of_class = tokenizer_class is not None and TOKEN_TYPES in tokenizer_class.model_input_names
        if "type_vocab_size" in self.model:
            of_class = of_class and self.model["type_vocab_size"] > 1
        elif self.model.get("model_type") in ARCHITECTURES:
            of_class = False  # a DistilBERT may name BERT's class
        if of_class or has_token_type_ids(self.model):
            return ["input_ids", TOKEN_TYPES, "attention_mask"]
        return ["input_ids", "attention_mask"]


def find_class(name: str | None) -> "type[PreTrainedTokenizerBase] | None":
    """Return a class of tokenizers of transformers; ``None`` if it has none of this name."""
    import transformers

    found = getattr(transformers, name or "", None)
    if isinstance(found, type) and issubclass(found, transformers.PreTrainedTokenizerBase):
        return found
    return None


def class_defaults(tokenizer_class: "type[PreTrainedTokenizerBase]") -> dict[str, Any]:
    """Return the defaults of the parameters of a class of tokenizers and of its base classes."""
    defaults = {}
    for ancestor in reversed(tokenizer_class.__mro__):
        if "__init__" not in vars(ancestor):
            continue
        for name, parameter in inspect.signature(vars(ancestor)["__init__"]).parameters.items():
            if parameter.default is not parameter.empty:
                defaults[name] = parameter.default
    return defaults


def read_object(path: Path) -> dict[str, Any]:
    """Return the contents of a JSON file; empty if there is no file, or no object in it."""
    if not path.exists():
        return {}
    values = json.loads(path.read_text(encoding="utf-8"))
    return values if isinstance(values, dict) else {}


def _content(token: Any) -> str | None:
    """Return the text of a special token, which is a text, or an object of a text and its properties."""
    if isinstance(token, Mapping):
        token = token.get("content")
    return None if token is None else str(token)
