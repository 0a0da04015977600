"""What a rule finds, without words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

FindingSeverity = Literal["good", "bad", "warning", "note"]
DIGITS = 3
"""Digits of a metric behind the point, in all sentences: a difference that they do not show is none."""


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
        code: Name of the finding, which has its sentence in ``words.py``.
        severity: What it means for the use of the model.
        numbers: What the sentence and the advice tell, by name.
        advice: Codes of what to do about it, in their order; empty if nothing is.
        of_clean_rows: True if it is of the rows without those that repeat or resemble an earlier one.
    """

    code: str
    severity: FindingSeverity
    numbers: Mapping[str, Any] = field(default_factory=dict)
    advice: tuple[str, ...] = ()
    of_clean_rows: bool = False


def as_shown(value: float) -> float:
    """Return a number as sentences show it, so that what is said of it fits the digits beside it."""
    return round(value, DIGITS) + 0.0  # no -0.0
