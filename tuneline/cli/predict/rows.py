"""What is read: rows, good and bad, each with its number."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """A row with everything that is wanted of it.

    Attributes:
        number: Counted from 1 in its source, without the header.
        texts: One or two, as the model has them.
        kept: Values that go into the output as they are.
    """

    number: int
    texts: tuple[str, ...]
    kept: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be predicted.

    Attributes:
        number: As in ``Row``.
        place: Where a person finds it: "line 18", or "row 17".
        reason: What is wrong with it.
    """

    number: int
    place: str
    reason: str


Rows = Iterator[Row | BadRow]


@dataclass(frozen=True)
class Wanted:
    """The columns that are read.

    Attributes:
        texts: The model's text columns, by their names in the input.
        kept: Columns that go into the output.
    """

    texts: tuple[str, ...]
    kept: tuple[str, ...]

    def missing(self, present: Sequence[str]) -> list[str]:
        """Those of them that are not there."""
        return [name for name in dict.fromkeys([*self.texts, *self.kept]) if name not in present]
