"""One sentence of a verdict, and the digits of its numbers."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["good", "bad", "warning", "note"]
DIGITS = 3
"""Digits of a metric behind the point, in all sentences: a difference that they do not show is none."""


@dataclass(frozen=True)
class Finding:
    """One finding: its name, one sentence, and what to do about it; ``advice`` is empty if nothing is."""

    name: str
    level: Level
    sentence: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.advice}".strip()


def as_shown(value: float) -> float:
    """Return a number as sentences show it, so that what is said of it fits the digits beside it."""
    return round(value, DIGITS) + 0.0  # no -0.0
