"""The columns of a labelled row, and the values in them as text or numbers. An error names the column and says what to do."""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

import pyarrow as pa

from tuneline.params.data import DataParams
from tuneline.readers.bad_rows import STOP, BadRowPolicy

POSITION = "position"
"""Column of a staged row with its line or row number."""


class ValueProblemError(ValueError):
    """A value that cannot be used; the message is the reason, with what to do after a full stop."""


@dataclass(frozen=True)
class RowColumns:
    """The columns of a batch, by the names that the user's data have.

    Attributes:
        texts: ``data.text_columns``.
        label: ``data.label_column``.
        regression: Labels are numbers.
        by: ``data.split.by``, if the data is divided by it.
        key: ``ingest.key``.
        policy: What to do about bad rows: ``data.bad_rows``.
    """

    texts: tuple[str, ...]
    label: str
    regression: bool = False
    by: str | None = None
    key: str | None = None
    policy: BadRowPolicy = STOP

    @classmethod
    def of(cls, data: DataParams, key: str | None) -> Self:
        """Return the columns that the parameters of the pipeline name."""
        by = data.split.by if data.split else None
        policy = BadRowPolicy(data.bad_rows, data.max_bad_share)
        return cls(tuple(data.text_columns), data.label_column, data.task == "regression", by, key, policy)

    @property
    def others(self) -> tuple[str, ...]:
        """The group and the key, where there are any and they are no text column or label."""
        return tuple(dict.fromkeys(name for name in (self.by, self.key) if name and name not in (*self.texts, self.label)))

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of a batch file."""
        return (*self.texts, self.label, *self.others)

    @property
    def schema(self) -> pa.Schema:
        """Schema of a batch file."""
        label = pa.float64() if self.regression else pa.string()
        return pa.schema([pa.field(name, label if name == self.label else pa.string()) for name in self.names])

    def options(self, names: tuple[str, ...]) -> dict[str, str]:
        """Return the parameter that names each of the columns, for messages."""
        known = dict.fromkeys(self.texts, "data.text_columns") | {self.label: "data.label_column"}
        return {name: known.get(name) or ("data.split.by" if name == self.by else "ingest.key") for name in names}


def as_text(value: Any) -> str | None:
    """Return a group, key or id as text: ``7``, ``7.0`` and ``"7"`` are the same. Missing and blank values are ``None``.

    Raises:
        ValueProblemError: It is a list or an object.
    """
    if isinstance(value, list | dict):
        raise ValueProblemError("a list or an object. Name a column of text or numbers")
    if value is None or value != value:  # NaN differs from itself  # noqa: PLR0124
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | Decimal) and _is_whole(value):
        value = int(value)
    return str(value).strip() or None


def as_class(value: Any) -> str | None:
    """Return a label as the name of a class; ``None`` if it is missing.

    Raises:
        ValueProblemError: It is a fraction, a list or an object.
    """
    name = as_text(value)
    if isinstance(value, float | Decimal) and name is not None and not _is_whole(value):
        raise ValueProblemError(f"label {value} is a fraction, not a class. Set data.task to regression if labels are numbers to predict")
    return name


def as_number(value: Any) -> float | None:
    """Return a label as a number; ``None`` if it is missing.

    Raises:
        ValueProblemError: It is not a finite number.
    """
    if (text := as_text(value)) is None:
        return None
    try:
        number = float(text)
    except ValueError:
        raise ValueProblemError(f"label {value!r} is not a number. Write it like 3.5, or set data.task to classification") from None
    if not math.isfinite(number):
        raise ValueProblemError(f"label {value!r} is not a finite number. Correct it, or leave the row out")
    return number


def _is_whole(value: float | Decimal) -> bool:
    return math.isfinite(value) and value == int(value)
