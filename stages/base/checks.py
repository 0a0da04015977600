"""Checks of a pretrained model before anything is trained: weights, vocabulary."""

from collections.abc import Mapping
from pathlib import Path

from tuneline.errors import StageError
from tuneline.pretrained import INDEX, Pretrained
from tuneline.tokenizer import load_tokenizer


def check_weights(checkpoint: Pretrained, folder: Path) -> None:
    """Check that every safetensors file in a folder is complete.

    Raises:
        StageError: A file is truncated or damaged.
    """
    from safetensors import SafetensorError, safe_open

    for name in checkpoint.weight_files():
        if name == INDEX:
            continue
        try:
            with safe_open(folder / name, framework="numpy"):
                pass
        except SafetensorError as error:
            raise checkpoint.damaged(name, f"it is truncated or damaged ({error})") from None


def check_vocabulary(tokenizer: Pretrained, folder: Path, checkpoint: Pretrained | None) -> None:
    """Check that a tokenizer loads, and that the checkpoint has an embedding for each of its tokens: the one of the same token.

    Args:
        tokenizer: The tokenizer.
        folder: Folder with its files.
        checkpoint: The checkpoint; ``None`` for a new model, which takes the tokenizer's vocabulary.

    Raises:
        StageError: It does not load, or has another vocabulary.
    """
    tokens = _tokens_by_id(folder, tokenizer)
    if checkpoint is None:
        return
    embeddings = checkpoint.config().get("vocab_size")
    if isinstance(embeddings, int) and max(tokens) >= embeddings:
        excess = min(number for number in tokens if number >= embeddings)
        raise StageError(
            f"{tokenizer.key}: {tokenizer.label} has another vocabulary than {checkpoint.label}, whose weights have {embeddings:,} "
            f"embeddings: there is none for token {excess}, {tokens[excess]!r}.",
            _hint(checkpoint),
        )
    if tokenizer == checkpoint or not checkpoint.tokenizer_files():
        return
    own = _tokens_by_id(checkpoint.fetch(checkpoint.tokenizer_files()), checkpoint)
    for number in sorted(tokens.keys() & own.keys()):
        if tokens[number] != own[number]:
            raise StageError(
                f"{tokenizer.key}: {tokenizer.label} has another vocabulary than {checkpoint.label}: "
                f"token {number} is {tokens[number]!r}, not {own[number]!r}.",
                _hint(checkpoint),
            )


def _tokens_by_id(folder: Path, pretrained: Pretrained) -> Mapping[int, str]:
    tokenizer = load_tokenizer(folder, f"{pretrained.key}: {pretrained.label}")
    return {number: token for token, number in tokenizer.get_vocab().items()}


def _hint(checkpoint: Pretrained) -> str:
    return (
        f"Set tokenize.tokenizer to null for the tokenizer of {checkpoint.name}. If the weights were made for this one, save both into one "
        "folder models/source/NAME."
    )
