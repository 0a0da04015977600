"""Evaluation in parts: ``reports/slices.json`` and ``reports/behaviour.json``."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from tuneline.core.records import OMITTED, Number, Record


class SliceMetrics(Record):
    """Metrics of one slice: those below, the primary metric under its name, and others of the task."""

    __pydantic_extra__: dict[str, Number]

    by: str
    """Property that defines the slice: ``length``, ``overlap``, ``label``, ``source``."""
    name: str = Field(alias="slice")
    """Value of the property, for people."""
    rows: int
    low: Number
    """Lower end of the interval of the primary metric."""
    high: Number

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics by name."""
        return self.__pydantic_extra__


class Slices(Record):
    """Metrics of every slice of the reported split."""

    written_by: ClassVar[str] = "evaluate"

    metric: str
    """Name of the primary metric."""
    level: float
    """Level of its intervals, for example 0.95."""
    smallest: SliceMetrics | None
    """The slice with the fewest rows."""
    worst: SliceMetrics | None
    """The slice with the lowest primary metric, of those with enough rows."""
    slices: Sequence[SliceMetrics]

    def value(self, slice_metrics: SliceMetrics) -> float:
        """Return the primary metric of a slice."""
        return slice_metrics.metrics[self.metric]


class TestedTexts(Record):
    """Texts of a row, and what the model predicts for them."""

    __test__ = False  # not a class of tests for pytest

    texts: Sequence[str]
    """In the order of ``data.text_columns``, cut off."""
    prediction: str | Number
    """Class name; number of a regression."""


class FailedCase(Record):
    """A failed case of a behaviour test."""

    before: TestedTexts | None = OMITTED
    """The original texts, where the test compares two predictions."""
    after: TestedTexts
    """The changed or generated texts."""


class BehaviourResult(Record):
    """Result of one behaviour test."""

    name: str
    kind: Literal["invariance", "direction", "minimum_functionality"]
    cases: int
    passed: int
    pass_rate: Number | None
    """Fraction of the cases that passed; ``None`` without cases."""
    low: Number
    """Lower end of its interval."""
    high: Number
    min_pass_rate: float | None
    """Required fraction; ``None`` if the test cannot stop the pipeline."""
    failures: Sequence[FailedCase]

    @property
    def stops(self) -> bool:
        """True if it stops the pipeline: the pass rate is too low, or there is no case to test."""
        return self.min_pass_rate is not None and (
            self.pass_rate is None or self.pass_rate < self.min_pass_rate
        )


class Behaviour(Record):
    """Results of the behaviour tests, in the order of ``conf/behaviour/NAME.yaml``; empty without tests."""

    written_by: ClassVar[str] = "evaluate"

    tests: Sequence[BehaviourResult]
