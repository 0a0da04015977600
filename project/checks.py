"""Data checks for validate.own.

Each gets the texts and labels of a split, as pandas has them, and says which rows violate the check.
"""

import pandas as pd

PHONE_NUMBER = r"\d(?:[ ./()-]?\d){6}"
"""Seven digits or more, also in groups."""


def no_phone_numbers(texts: pd.DataFrame, labels: pd.Series) -> pd.Series:
    """Texts have no phone numbers.

    The first sentence is the title of the check in its report.

    Args:
        texts: The text columns, one row for each row of the split.
        labels: Class names.

    Returns:
        True for each row that violates the check.
    """
    found = texts.apply(lambda column: column.str.contains(PHONE_NUMBER))
    return found.any(axis=1)
