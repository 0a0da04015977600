"""How long a row may be, and must be able to be."""

from collections.abc import Mapping
from typing import Any

from tuneline.errors import ParamsError

PADDED_POSITIONS = frozenset({"camembert", "data2vec-text", "mpnet", "roberta", "xlm-roberta", "xlm-roberta-xl"})
"""Values of ``model_type`` that number positions from the padding id on, so that they take fewer tokens than they have positions."""


def positions_of(config: Mapping[str, Any]) -> int | None:
    """Tokens that a model made from ``model.config`` takes; ``None`` when the configuration leaves it open."""
    positions = config.get("max_position_embeddings")
    if not isinstance(positions, int):
        return None
    return positions - 1 - config.get("pad_token_id", 1) if config.get("model_type") in PADDED_POSITIONS else positions


def check_length(max_length: int, limit: int | None, special_tokens: int, texts: int) -> None:
    """Checks ``tokenize.max_length``.

    Args:
        max_length: Tokens of a row, special ones included.
        limit: Most that the model takes, where that is known.
        special_tokens: What the tokenizer puts around the texts of a row.
        texts: Number of texts in a row.

    Raises:
        ParamsError: It is too long for the model, or leaves no room for a token of each text.
    """
    if limit is not None and max_length > limit:
        raise ParamsError(
            f"tokenize.max_length: {max_length} is more than the {limit} tokens that the model takes.",
            f"Set it to {limit} or less, or give a model made from scratch more: model.config.max_position_embeddings.",
        )
    if max_length < special_tokens + texts:
        raise ParamsError(
            f"tokenize.max_length: {max_length} leaves no room: {special_tokens} special tokens and {texts} text(s) make up a row.",
            f"Set it to {special_tokens + texts} or more.",
        )
