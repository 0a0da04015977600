"""The vocabulary of a tokenizer, compared with the embeddings of the model and with the files beside it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tuneline.checkpoints.pretrained import Pretrained
from tuneline.core.errors import ParamsError
from tuneline.core.tokenizer_files import TOKENIZER_JSON, VOCAB_JSON, VOCAB_TXT
from tuneline.model.tokenizer import load_tokenizer
from tuneline.model.tokenizer_settings import read_object

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPARE_ROWS = 128
"""Embeddings without a token that any model may have.

Their number is rounded up to a multiple of 8, 64 or 128, for speed.
"""
SPARE_SHARE = 0.1
"""Share of the embeddings that may have no token: some are reserved for tokens to come."""
OTHER_TOKENS = 0.01
"""Share of the tokens of another file that may be others: ``[unused1]`` is often replaced."""


def check_vocabulary(
    tokenizer: "PreTrainedTokenizerFast", pretrained: Pretrained, checkpoint: Pretrained | None
) -> None:
    """Check that a checkpoint has an embedding for each token of a tokenizer.

    The embedding must be of the same token in the tokenizer of the checkpoint.

    Args:
        tokenizer: The tokenizer.
        pretrained: Where it comes from.
        checkpoint: The model; ``None`` if it is trained from scratch.
    """
    tokens = _tokens_by_id(tokenizer)
    if checkpoint is None:
        return

    # as many embeddings as tokens
    embeddings = checkpoint.config().get("vocab_size")
    if isinstance(embeddings, int) and max(tokens) >= embeddings:
        excess = min(number for number in tokens if number >= embeddings)
        raise ParamsError(
            f"{pretrained.key}: {pretrained.label} has another vocabulary than {checkpoint.label}, whose"
            f" weights have {embeddings:,} embeddings: there is none for token {excess}, {tokens[excess]!r}.",
            _hint(checkpoint),
        )

    # the same tokens as the tokenizer of the checkpoint, if it has one
    if pretrained == checkpoint or not checkpoint.tokenizer_files():
        return
    folder = checkpoint.fetch(checkpoint.tokenizer_files())
    checkpoint_tokens = _tokens_by_id(load_tokenizer(folder, f"{checkpoint.key}: {checkpoint.label}"))
    for number in sorted(tokens.keys() & checkpoint_tokens.keys()):
        if tokens[number] != checkpoint_tokens[number]:
            raise ParamsError(
                f"{pretrained.key}: {pretrained.label} has another vocabulary than {checkpoint.label}: "
                f"token {number} is {tokens[number]!r}, not {checkpoint_tokens[number]!r}.",
                _hint(checkpoint),
            )


def _tokens_by_id(tokenizer: "PreTrainedTokenizerFast") -> Mapping[int, str]:
    """Return the vocabulary of a tokenizer."""
    tokens = {}
    for token, number in tokenizer.get_vocab().items():
        tokens[number] = token
    return tokens


def _hint(checkpoint: Pretrained) -> str:
    return (
        f"Set tokenize.tokenizer to null for the tokenizer of {checkpoint.name}. If the weights were made for"
        " this one, save both into one folder models/source/NAME."
    )


def vocabulary_doubts(
    tokenizer: "PreTrainedTokenizerFast", folder: Path, checkpoint: Pretrained | None
) -> Iterator[str]:
    """Yield what makes it doubtful that a tokenizer is the one of its model, as huggingface/transformers#48967.

    Args:
        tokenizer: The tokenizer.
        folder: Its folder.
        checkpoint: The model; ``None`` if it is trained from scratch.
    """
    # the other vocabularies in the folder
    tokens = tokenizer.get_vocab()
    for name in (VOCAB_TXT, VOCAB_JSON):
        ids = _ids_of_file(folder / name)
        others = sum(tokens.get(token) != number for token, number in ids.items())
        if others > OTHER_TOKENS * len(ids):
            yield (
                f"{TOKENIZER_JSON} has {len(tokens):,} tokens and {name} {len(ids):,}, of which {others:,} are"
                f" not in {TOKENIZER_JSON} with this id. {TOKENIZER_JSON} is used; if it is of another model,"
                f" remove it, and {name} is converted."
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
