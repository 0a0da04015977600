"""Evaluation in parts: metrics by slice (``reports/slices.json``) and behaviour tests (``reports/behaviour.json``)."""

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

    def value(self, one: SliceMetrics) -> float:
        """Return the primary metric of a slice."""
        return one.metrics[self.metric]


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
        """True if it stops the pipeline: the pass rate is below the required one, or there is no case to test."""
        return self.min_pass_rate is not None and (self.pass_rate is None or self.pass_rate < self.min_pass_rate)


class Behaviour(Record):
    """Results of the behaviour tests, in the order of ``conf/behaviour/NAME.yaml``; empty without tests."""

    written_by: ClassVar[str] = "evaluate"

    tests: Sequence[BehaviourResult]


class Saturation(Record):
    """Result of the saturation check of an int8 model."""

    possible: bool
    """True if some activations make a sum of two products exceed 16 bits."""
    largest_sum: int
    """Largest magnitude that the sum of two products can have."""
    sums: int
    """Sums that were computed; 0 where none can saturate. Those of ``saturated`` exceed 16 bits."""
    saturated: int


class ModelComparison(Record):
    """Comparison of one exported model with the trained model.

    Besides the keys below it has the compared metric under its name, its drop as ``METRIC_drop`` with the ends of the interval as
    ``METRIC_drop_low`` and ``METRIC_drop_high``, and ``calibration_error`` for a classifier.
    """

    __pydantic_extra__: dict[str, Number]

    max_abs_diff: Number
    """Largest absolute difference of a logit."""
    mean_abs_diff: Number
    agreement: Number
    """Fraction of rows with the same prediction."""
    flips: int
    """Number of rows with another prediction."""
    saturation: Saturation | None = OMITTED
    """Only of a model with 8-bit products."""
    violations: Sequence[str]
    """Exceeded tolerances, as messages."""
    required: bool
    """True if a violation stops the pipeline."""
    published: bool
    """True if the model is in ``models/onnx``."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics of the exported model, and their drops, by name."""
        return self.__pydantic_extra__


class ComparisonRecord(Record):
    """Comparison of all exported models."""

    written_by: ClassVar[str] = "compare"

    split: str
    rows: int
    metric: str
    trained: Mapping[str, Number]
    models: Mapping[str, ModelComparison]


class Prediction(Record):
    """Prediction of one model for one row."""

    prediction: str | Number
    """Class name; number of a regression."""
    probability: Number | None = OMITTED
    """Of the predicted class."""


class Flip(Record):
    """A row on which an exported model and the trained model differ."""

    row: int
    text: Mapping[str, str | None]
    label: str | Number
    trained: Prediction
    exported: Prediction
    difference: Number
    """Largest absolute difference of a logit."""


class Flips(Record):
    """Some of the flips of each model, the largest difference first, under its precision."""

    __pydantic_extra__: dict[str, Sequence[Flip]]

    written_by: ClassVar[str] = "compare"

    def of(self, precision: str) -> Sequence[Flip]:
        """Return the flips of one model."""
        return self.__pydantic_extra__.get(precision, ())
