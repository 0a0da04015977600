"""The vocabulary of a tokenizer, compared with the embeddings of the model."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuneline.checkpoints.pretrained import Pretrained
from tuneline.model.tokenizer import load_tokenizer
from tuneline.runtime.errors import ParamsError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


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
