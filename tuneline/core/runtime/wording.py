"""How messages name things."""

from collections.abc import Iterable, Sequence


def first_of(texts: Sequence[str], limit: int) -> str:
    """Join the first texts by commas; those after ``limit`` are counted instead of named."""
    joined = ", ".join(texts[:limit])
    if len(texts) > limit:
        joined += f" and {len(texts) - limit:,} more"
    return joined


def listed(names: Iterable[str], limit: int = 12) -> str:
    """Join quoted names; those after ``limit`` are counted instead of named."""
    return first_of([repr(name) for name in names], limit)


def first_lines(lines: Sequence[str], limit: int, total: int | None = None) -> list[str]:
    """Return the first lines, and a last one that counts those after ``limit``.

    Args:
        lines: All lines, or only the first ones of ``total``.
        limit: Number of lines that are shown.
        total: Number of all lines, if ``lines`` are not all.
    """
    shown = list(lines[:limit])
    if total is None:
        total = len(lines)
    if total > len(shown):
        shown.append(f"and {total - len(shown):,} more")
    return shown
