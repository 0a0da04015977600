"""Which parts of the train file become the splits that have no file of their own."""

import math
from collections.abc import Sequence

from tuneline.cli.init.row_file import RowFile
from tuneline.core.errors import DataError
from tuneline.params.data import SplitParams
from tuneline.readers.rows import check_columns

LEAST_ROWS = {"test": 300, "validation": 150}
"""Rows of the two splits below which they get a larger part of a small file, within ``LARGEST_FRACTION``."""
LARGEST_FRACTION = {"test": 0.3, "validation": 0.15}


def usual_split(rows: int) -> SplitParams:
    """Return how a file of so many rows is divided.

    Validation and test get a tenth each, and more of a small file, or its test could tell nothing apart.
    """
    usual = SplitParams()
    fractions = {}
    for name, least in LEAST_ROWS.items():
        required = math.ceil(least / rows * 100) / 100
        fractions[name] = max(min(required, LARGEST_FRACTION[name]), getattr(usual, name))
    return SplitParams(**fractions)


def plan_split(
    without_file: Sequence[str], train: RowFile, by: str | None, now: SplitParams
) -> SplitParams | None:
    """Return how the train file is divided; ``None`` if every split has a file of its own.

    Args:
        without_file: Names of the splits without a file.
        train: The train file.
        by: Column whose equal values stay in one split, as the user says; ``None``: the column of ``now``, if
            the file has it.
        now: Fractions and mode that are kept.

    Raises:
        DataError: ``--by`` is not a column, or nothing is divided.
    """
    if by is not None:
        check_columns(train.columns, {by: "--by"}, str(train.path))
        if not without_file:
            raise DataError(
                "--by divides a file, but every split has a file of its own.",
                "Leave out --by, or name fewer files.",
            )
    if not without_file:
        return None

    # fractions of the splits without a file; the others take nothing from the train file
    usual = SplitParams()
    fractions = {"validation": 0.0, "test": 0.0}
    for name in fractions:
        if name in without_file:
            fractions[name] = getattr(now, name) or getattr(usual, name)
    if by is None and now.by in train.columns:
        by = now.by
    return SplitParams(**fractions, by=by, stratify=now.stratify)
