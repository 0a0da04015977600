"""Slices for evaluate.slices.

Each gets the texts and labels of the reported split, as pandas has them, and says which rows belong to it.
"""

import pandas as pd

LONG = 120
"""Characters from which a question is long."""


def long_questions(texts: pd.DataFrame, labels: pd.Series) -> pd.Series:
    """Return the rows with a question mark and at least LONG characters.

    Args:
        texts: The text columns, one row for each row of the split.
        labels: Class names.
    """
    asks = texts.apply(lambda column: column.str.contains("?", regex=False)).any(axis=1)
    characters = texts.apply(lambda column: column.str.len()).sum(axis=1)
    return asks & (characters >= LONG)
