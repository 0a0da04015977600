"""Profile of the data: ``reports/checks/profile.json``, and that of the promoted model's data, ``data/reference/profile.json``."""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field

from tuneline.drift import Distribution
from tuneline.errors import DataError
from tuneline.files import replace_file
from tuneline.records.record import Number, Record
from tuneline.text import Keys


def _with_tuples(values: Any) -> Any:
    return (
        {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()} if isinstance(values, dict) else values
    )


def _consistent(distribution: Distribution) -> Distribution:
    if len(distribution.counts) != len(distribution.edges) + 1:
        raise ValueError(f"{len(distribution.edges)} edges need one more count")
    return distribution


Histogram = Annotated[Distribution, BeforeValidator(_with_tuples), AfterValidator(_consistent)]


class Words(Record):
    """The most common words of a split, as hashes: the profile of a public repository shows no text of the data."""

    hashes: Sequence[Annotated[str, Field(pattern="^[0-9a-f]{16}$")]]
    """64-bit hashes in hexadecimal."""
    known: Number
    """Fraction of the occurrences of all words that these make up."""

    @cached_property
    def word_keys(self) -> Keys:
        """Hashes as uint64, shape ``(words,)``."""
        return np.array([int(value, 16) for value in self.hashes], dtype=np.uint64)


class SplitProfile(Record):
    """Profile of one split."""

    rows: int
    labels: Histogram | None
    """Rows per class id, or the distribution of regression targets; ``None`` for a split without labels."""
    characters: Histogram
    """Distribution of the rows' lengths in characters."""
    words: Words


class Profile(Record):
    """Profile of all splits of one version of the data, small enough for git."""

    written_by: ClassVar[str] = "validate"

    version: Literal[1]
    """Version of the format: distributions of another version have other bins."""
    labels: Sequence[str] | None
    """Class names; ``None`` for a regression."""
    splits: Mapping[str, SplitProfile]
    """Profiles by name, of the splits that have the columns they should have."""

    @property
    def train(self) -> SplitProfile:
        """Profile of the data that a model was trained on.

        Raises:
            DataError: The data checks could not read the split; no model was trained on it.
        """
        if "train" not in self.splits:
            raise DataError("profile.json: splits.train: missing.", self._hint("profile.json"))
        return self.splits["train"]

    def write(self, path: Path) -> None:
        """Write the file in one line: indented, most of it would be line breaks."""
        with replace_file(path) as partial:
            partial.write_text(json.dumps(self.model_dump(mode="json")) + "\n", encoding="utf-8")
