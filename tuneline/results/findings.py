"""One sentence of a verdict."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["good", "bad", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One finding: its name, one sentence, and what to do about it; ``advice`` is empty if nothing is."""

    name: str
    level: Level
    sentence: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.advice}".strip()
