"""The tokenizer of a checkpoint: how it is loaded and checked, and the length that it allows."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuneline.core.errors import ParamsError
from tuneline.core.tokenizer_files import TOKENIZER_CONFIG
from tuneline.model.architectures import ARCHITECTURES, token_limit

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

DIRECT_TOKENIZERS = frozenset(
    entry.tokenizer_class for entry in ARCHITECTURES.values() if entry.tokenizer_class
)
"""Tokenizer classes that load without importing torch."""
UNLIMITED = 10**9
"""A ``model_max_length`` from here on means no limit; transformers writes 1e30."""


def load_tokenizer(folder: Path, label: str) -> "PreTrainedTokenizerFast":
    """Load a fast tokenizer with a padding token from a folder as ``save_pretrained`` writes it.

    Args:
        folder: The folder; no code in it is run.
        label: Its parameter and name, for messages.

    Raises:
        ParamsError: The tokenizer cannot be loaded, is a slow one, or has no padding token.
    """
    import transformers

    try:
        stated_class = _read_json(folder / TOKENIZER_CONFIG).get("tokenizer_class")
        class_name = str(stated_class).removesuffix("Fast")
        if class_name in DIRECT_TOKENIZERS:
            loader = getattr(transformers, class_name)
        else:
            loader = transformers.AutoTokenizer
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
    """Return the number of tokens that a checkpoint takes; ``None`` if there is no limit.

    Its tokenizer says it, else its model.
    """
    if tokenizer.model_max_length < UNLIMITED:
        return int(tokenizer.model_max_length)
    return token_limit(_read_json(folder / "config.json"))


def stated_limit(folder: Path) -> int | None:
    """Return the same from the files of a tokenizer, which is not loaded."""
    stated = _read_json(folder / TOKENIZER_CONFIG).get("model_max_length", UNLIMITED)
    if stated < UNLIMITED:
        return int(stated)
    return token_limit(_read_json(folder / "config.json"))


def _read_json(path: Path) -> dict[str, Any]:
    """Return the contents of a JSON file; empty if there is no file, or no object in it."""
    if not path.exists():
        return {}
    values = json.loads(path.read_text(encoding="utf-8"))
    return values if isinstance(values, dict) else {}
