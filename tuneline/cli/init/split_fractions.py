"""Which parts of the train file become the splits that have no file of their own."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tuneline.cli.init.row_file import RowFile
from tuneline.params.data import SplitParams
from tuneline.readers.rows import check_columns
from tuneline.runtime.errors import DataError

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


@dataclass(frozen=True)
class DecidingColumn:
    """The column that decides on the split of a row; both ``None``: its texts do.

    Attributes:
        by: Column whose equal values stay in one split.
        by_time: Column of times.
        is_guess: False if the user said so; then it is an error if it cannot be.
    """

    by: str | None
    by_time: str | None
    is_guess: bool = False

    @property
    def options(self) -> dict[str, str]:
        """The option that names each column."""
        options = {}
        if self.by is not None:
            options[self.by] = "--by"
        if self.by_time is not None:
            options[self.by_time] = "--by-time"
        return options


def plan_split(
    without_file: Sequence[str], train: RowFile, deciding: DecidingColumn, now: SplitParams
) -> SplitParams | None:
    """Return how the train file is divided; ``None`` if every split has a file of its own.

    Args:
        without_file: Names of the splits without a file.
        train: The train file.
        deciding: The column that decides on the split of a row, if one does.
        now: Fractions and mode that are kept.

    Raises:
        DataError: A column that the user named is missing, both are named, or nothing is divided.
    """
    options = deciding.options
    if not deciding.is_guess:
        check_columns(train.columns, options, train.path)
        option = " and ".join(options.values())
        if options and not without_file:
            raise DataError(
                f"{option} divides a file, but every split has a file of its own.",
                f"Leave out {option}, or name fewer files.",
            )
        if deciding.by is not None and deciding.by_time is not None:
            raise DataError(
                "--by and --by-time contradict each other: rows of one value can be of any time.",
                "Leave out one of them.",
            )
    elif not set(options) <= set(train.columns):
        deciding = DecidingColumn(None, None)
    if not without_file:
        return None

    # fractions of the splits without a file; the others take nothing from the train file
    usual = SplitParams()
    fractions = {"validation": 0.0, "test": 0.0}
    for name in fractions:
        if name in without_file:
            fractions[name] = getattr(now, name) or getattr(usual, name)
    return SplitParams(**fractions, by=deciding.by, by_time=deciding.by_time, stratify=now.stratify)
