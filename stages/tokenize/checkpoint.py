"""The tokenizer of a checkpoint: a name on the hub, or a folder."""

import json
from pathlib import Path
from typing import Any

import transformers
from transformers import PreTrainedTokenizerFast
from transformers.utils.hub import cached_file, extract_commit_hash

from stages.tokenize.limits import positions_of
from tuneline.errors import StageError

UNLIMITED = 10**9
"""transformers says 1e30 where a tokenizer knows no limit."""
PLAIN = frozenset(
    {
        "AlbertTokenizer", "BertTokenizer", "CamembertTokenizer", "DebertaV2Tokenizer", "DistilBertTokenizer", "ElectraTokenizer",
        "MPNetTokenizer", "RobertaTokenizer", "XLMRobertaTokenizer",
    }
)  # fmt: skip
"""Classes that AutoTokenizer would pick too, by the name in ``tokenizer_config.json``. Asked directly, they do not import torch,
which AutoTokenizer does: seconds and 300 MB for nothing."""
WITH_A_TOKENIZER = ("tokenizer_config.json", "tokenizer.json", "config.json")
"""Files of which a checkpoint with a tokenizer has one at least."""


def load_tokenizer(name: str, revision: str | None) -> PreTrainedTokenizerFast:
    """Loads the fast tokenizer of a checkpoint. Code that lies beside it is never run.

    Args:
        name: A folder, or a name on the hub.
        revision: Commit, tag or branch on the hub.

    Raises:
        StageError: It is not there, cannot be reached, or has no fast tokenizer.
    """
    if name.startswith((".", "/", "~")) and not Path(name).is_dir():
        raise StageError(f"tokenize.tokenizer: {name!r} is no folder.", "A path is read from the root of the project.")
    try:
        declared = str(read_json(name, "tokenizer_config.json", revision).get("tokenizer_class")).removesuffix("Fast")
        loader = getattr(transformers, declared) if declared in PLAIN else transformers.AutoTokenizer
        tokenizer = loader.from_pretrained(name, revision=revision, trust_remote_code=False)
    except Exception as error:  # a broken file raises whatever its reader stumbles over
        raise StageError(f"tokenize.tokenizer: {name!r} cannot be loaded: {_first_line(error)}", _advice(name)) from None
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise StageError(
            f"tokenize.tokenizer: {name!r} has only a slow tokenizer ({type(tokenizer).__name__}).",
            "The line needs one of the tokenizers library (a tokenizer.json). Choose another checkpoint, or convert this one.",
        )
    if tokenizer.pad_token_id is None:
        raise StageError(
            f"tokenize.tokenizer: {name!r} has no padding token, which batches need.",
            "Save a copy of it with one (tokenizer.pad_token = ...; tokenizer.save_pretrained(FOLDER)), and give that folder.",
        )
    return tokenizer


def commit_of(name: str, revision: str | None) -> str | None:
    """The commit that a checkpoint of the hub stands at. All its files are then read at that one. ``None`` for a folder.

    Raises:
        StageError: It is not there, or cannot be reached.
    """
    if Path(name).is_dir():
        return None
    try:
        found = (cached_file(name, file, revision=revision, _raise_exceptions_for_missing_entries=False) for file in WITH_A_TOKENIZER)
        path = next((path for path in found if path is not None), None)
    except (OSError, ValueError) as error:
        raise StageError(f"tokenize.tokenizer: {name!r} cannot be loaded: {_first_line(error)}", _advice(name)) from None
    return extract_commit_hash(path, None)


def length_limit(tokenizer: PreTrainedTokenizerFast, name: str, revision: str | None) -> int | None:
    """Tokens that the checkpoint can take: what its tokenizer says, else its model's positions. ``None`` when neither says."""
    if tokenizer.model_max_length < UNLIMITED:
        return int(tokenizer.model_max_length)
    return positions_of(read_json(name, "config.json", revision))


def read_json(name: str, file: str, revision: str | None) -> dict[str, Any]:
    """Reads one JSON file of a checkpoint; empty when it has none.

    Raises:
        OSError: The checkpoint is not there, or cannot be reached.
    """
    path = cached_file(name, file, revision=revision, _raise_exceptions_for_missing_entries=False)
    values = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    return values if isinstance(values, dict) else {}


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]


def _advice(name: str) -> str:
    if Path(name).is_dir():
        return "The folder must hold tokenizer.json and tokenizer_config.json, as save_pretrained writes them."
    return "Check the name and tokenize.revision, and that the hub can be reached (HF_HUB_OFFLINE, HF_ENDPOINT); or give a folder."
