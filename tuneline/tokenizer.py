"""Loader of the tokenizer of a pretrained model, from a folder. It never runs code stored beside it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuneline.architectures import DIRECT_TOKENIZERS, token_limit
from tuneline.errors import StageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

UNLIMITED = 10**9
"""A ``model_max_length`` from here on means no limit; transformers writes 1e30."""


def load_tokenizer(folder: Path, label: str) -> "PreTrainedTokenizerFast":
    """Load a fast tokenizer.

    Args:
        folder: Folder with its files, as ``save_pretrained`` writes them.
        label: Its parameter and name, for messages.

    Raises:
        StageError: It cannot be loaded, is not a fast tokenizer, or has no padding token.
    """
    import transformers

    try:
        class_name = str(_read_json(folder / "tokenizer_config.json").get("tokenizer_class")).removesuffix("Fast")
        loader = getattr(transformers, class_name) if class_name in DIRECT_TOKENIZERS else transformers.AutoTokenizer
        tokenizer = loader.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # a broken file raises errors of many types
        first = str(error).strip().split("\n", 1)[0]
        hint = "A tokenizer that save_pretrained wrote has tokenizer.json and tokenizer_config.json."
        raise StageError(f"{label}: the tokenizer cannot be loaded: {first}", hint) from None
    if not isinstance(tokenizer, transformers.PreTrainedTokenizerFast):
        raise StageError(
            f"{label} has only a slow tokenizer ({type(tokenizer).__name__}).",
            "The pipeline needs a fast tokenizer (a tokenizer.json). Choose another checkpoint, or convert this one.",
        )
    if tokenizer.pad_token_id is None:
        raise StageError(
            f"{label}: the tokenizer has no padding token, which batches need.",
            "Save a copy with one (tokenizer.pad_token = ...; tokenizer.save_pretrained('models/source/NAME')) and name that folder.",
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
