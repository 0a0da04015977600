"""What was measured, what is required of it, and if that is met: of a promotion, and of new rows."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Criterion:
    """A measured quantity, with its value and the required value as texts."""

    name: str
    value: str
    limit: str
    met: bool

    def __str__(self) -> str:
        """Return the criterion in one line, for people."""
        return f"{self.name}: {self.value}, required {self.limit}"
