"""What rows stand for, in words: rows that repeat or resemble each other count once."""


def unit_of_rows(rows: int, independent: int, grouped: bool) -> str:
    """Return what independent rows are, in words.

    Args:
        rows: Number of rows.
        independent: Number of their clusters.
        grouped: True if the data is divided by a column of groups (``data.split.by``).
    """
    if independent == rows:
        return "rows"
    if grouped:
        return "groups"
    return "distinct texts"


def rows_in_words(rows: int, independent: int, grouped: bool) -> str:
    """Return the number of rows, and of those that are independent; arguments as of ``unit_of_rows``."""
    if independent == rows:
        return f"{rows:,} rows"
    return f"{rows:,} rows, {independent:,} {unit_of_rows(rows, independent, grouped)}"
