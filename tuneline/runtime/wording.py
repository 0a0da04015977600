"""How messages name things."""

from collections.abc import Sequence


def first_of(texts: Sequence[str], limit: int) -> str:
    """Join the first texts by commas; those after ``limit`` are counted instead of named."""
    joined = ", ".join(texts[:limit])
    if len(texts) > limit:
        joined += f" and {len(texts) - limit:,} more"
    return joined
