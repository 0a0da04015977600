"""Results of the data checks: ``reports/checks/checks.json``."""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field

from tuneline.checks.analysis.distributions import Distribution
from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.files import replace_file
from tuneline.core.stage.records import OMITTED, Number, Record
from tuneline.core.stage.texts import Keys
from tuneline.model.tasks import Task, recorded_kind, task_with_names

Severity = Literal["error", "warning"]
Status = Literal["passed", "failed"]


class Violation(Record):
    """A row that violates a check."""

    number: int
    """Row number in its split."""
    texts: Mapping[str, str]
    """Excerpts of its texts, by column."""
    reason: str
    """What is wrong, in words."""
    like: str | None
    """The row that it repeats, for checks of repeated rows."""


class CheckEntry(Record):
    """Result of one expectation of a check on one split."""

    check: str
    """Key of the check, as under ``validate`` in params.yaml, or the name of a function of the user."""
    split: str
    table: str
    """Kind of the checked table: ``raw``, ``tokenized``, ``own`` or ``between``."""
    severity: Severity
    status: Status
    title: str
    found: str
    """The measurement, in words."""
    allowed: str
    """The limit, in words."""
    rows: int | None
    """Number of checked rows; ``None`` for a measurement."""
    failing: int | None
    """Number of violating rows, likewise."""
    expectation: Mapping[str, Any]
    """Type and arguments of the expectation of Great Expectations."""
    examples: Sequence[Violation]
    """The first rows that violate a failed check."""
    notes: Sequence[str] = ()
    """What the check found beside its measurement, as plain text, one line each; of passed checks, too."""
    hint: str | None
    """How to fix it; ``None`` if the check passed."""

    def __str__(self) -> str:
        """Return the result in one line, for people."""
        return f"{self.check}, {self.split}: {self.found}; allowed: {self.allowed}"

    @property
    def stops(self) -> bool:
        """True if it ends the stage: a failed check of severity ``error``."""
        return self.status == "failed" and self.severity == "error"


class Checks(Record):
    """Results of all checks."""

    written_by: ClassVar[str] = "validate"

    passed: bool
    """True if no check stops the pipeline."""
    not_run: Sequence[str]
    """Keys of checks that do not apply to this data."""
    raw_sha256: Mapping[str, str] = {}
    """SHA-256 of the checked files of ``data/raw``, by split: other files have other rows."""
    checks: Sequence[CheckEntry]
    """In the order of the table of checks, then of the splits."""


def _consistent(distribution: Distribution) -> Distribution:
    if len(distribution.counts) != len(distribution.edges) + 1:
        raise ValueError(f"{len(distribution.edges)} edges need one more count")
    return distribution


Histogram = Annotated[Distribution, AfterValidator(_consistent)]


class Words(Record):
    """The most common words of a split, as hashes: a public repository shows no text of the data."""

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
    one_line: ClassVar[bool] = True

    version: Literal[1]
    """Version of the format: distributions of another version have other bins."""
    task_kind: str | None = OMITTED
    """The kind of task; not of a classification or a regression, which the class names tell."""
    labels: Sequence[str] | None
    """Class names; ``None`` for a regression."""
    splits: Mapping[str, SplitProfile]
    """Profiles by name, of the splits that have the columns they should have."""

    @classmethod
    def of(cls, task: Task, splits: Mapping[str, SplitProfile]) -> Self:
        """Return the profile of data with the labels of a task."""
        return cls(version=1, task_kind=recorded_kind(task), labels=task.names, splits=splits)

    @property
    def task(self) -> Task:
        """The task that the labels are of."""
        return task_with_names(self.labels, self.task_kind)

    @property
    def train(self) -> SplitProfile:
        """Profile of the data that a model was trained on, which has a split ``train``."""
        if "train" not in self.splits:
            raise DataError("profile.json: splits.train: missing.", self._hint("profile.json"))
        return self.splits["train"]

    def write(self, path: Path) -> None:
        """Write the file in one line: indented, most of it would be line breaks."""
        with replace_file(path) as partial:
            partial.write_text(json.dumps(self.model_dump(mode="json")) + "\n", encoding="utf-8")
