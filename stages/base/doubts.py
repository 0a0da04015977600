"""What makes it doubtful that a tokenizer is the one that its model was trained with."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from tuneline.checkpoints.pretrained import Pretrained
from tuneline.core.tokenizer_files import TOKENIZER_CONFIG, TOKENIZER_JSON, VOCAB_JSON, VOCAB_TXT
from tuneline.model.tokenizer_settings import read_object

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

FLAGS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
    "add_prefix_space": "add_prefix_space",
}
"""Settings that change the tokens, and their names in ``tokenizer.json``."""
SPARE_ROWS = 128
"""Embeddings without a token that any model may have.

Their number is rounded up to a multiple of 8, 64 or 128, for speed.
"""
SPARE_SHARE = 0.1
"""Share of the embeddings that may have no token: some are reserved for tokens to come."""
OTHER_TOKENS = 0.01
"""Share of the tokens of another file that may be others: ``[unused1]`` is often replaced."""


def tokenizer_doubts(
    tokenizer: "PreTrainedTokenizerFast", folder: Path, checkpoint: Pretrained | None
) -> Iterator[str]:
    """Yield what makes it doubtful that a tokenizer is the one of its model.

    Args:
        tokenizer: The tokenizer.
        folder: Its folder.
        checkpoint: The model; ``None`` if it is trained from scratch.
    """
    # settings that contradict tokenizer.json
    settings = read_object(folder / TOKENIZER_CONFIG)
    for name, used, stated in _contradictions(tokenizer.backend_tokenizer, settings):
        yield (
            f"{TOKENIZER_CONFIG} states {name} {json.dumps(stated)}, but {TOKENIZER_JSON} has"
            f" {json.dumps(used)}, which is used: it is what the tokenizer did when it was saved."
        )

    # the other vocabularies in the folder
    tokens = tokenizer.get_vocab()
    for name in (VOCAB_TXT, VOCAB_JSON):
        ids = _ids_of_file(folder / name)
        others = sum(tokens.get(token) != number for token, number in ids.items())
        if others > OTHER_TOKENS * len(ids):
            yield (
                f"{TOKENIZER_JSON} has {len(tokens):,} tokens and {name} {len(ids):,}. Tokens of {name} that"
                f" {TOKENIZER_JSON} does not have, or has with another id: {others:,}. {TOKENIZER_JSON} is"
                f" used; if it is of another model, remove it, and {name} is converted."
            )

    # embeddings without a token
    embeddings = None if checkpoint is None else checkpoint.config().get("vocab_size")
    if not isinstance(embeddings, int):
        return
    spare = embeddings - len(tokens)
    if spare > max(SPARE_ROWS, SPARE_SHARE * embeddings):
        yield (
            f"it has {len(tokens):,} tokens, and the model {embeddings:,} embeddings. Make sure that the"
            " tokenizer is the one that the model was trained with."
        )


def _ids_of_file(vocabulary: Path) -> Mapping[str, int]:
    """Return the ids in a ``vocab.txt`` or ``vocab.json``; empty if there is no such file."""
    if not vocabulary.exists():
        return {}
    if vocabulary.name == VOCAB_JSON:
        return read_object(vocabulary)
    with vocabulary.open(encoding="utf-8") as lines:
        return {line.rstrip("\n"): number for number, line in enumerate(lines)}


def _contradictions(tokenizer: Tokenizer, stated: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name of a setting, what a tokenizer does, and what its configuration states instead."""
    used: dict[str, Any] = {}
    for part in (tokenizer.normalizer, tokenizer.pre_tokenizer):
        if part is not None:
            used |= json.loads(part.__getstate__())
    for name, key in FLAGS.items():
        both_say_it = isinstance(stated.get(name), bool) and isinstance(used.get(key), bool)
        if both_say_it and stated[name] != used[key]:
            yield name, used[key], stated[name]
