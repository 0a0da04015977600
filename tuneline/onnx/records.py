"""Records of exported models: ``export.json``, and their comparison with the trained model.

``export.json`` says how to use the models and where they come from; it is in the metadata of each model, too.
It contains no time, no path of the machine and no commit: it is a function of the stage's inputs, and the
commit is created later. The comparison is in ``reports/compare/``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import model_validator

from tuneline.core.base_source import BaseSource
from tuneline.core.provenance import StageProvenance, parameters_hash
from tuneline.core.raw_source import RawSource
from tuneline.core.records import OMITTED, Number, Record
from tuneline.onnx.usage import FORMAT, UsageRecord


class DataRecord(Record):
    """The raw splits: ``data/raw/source.json``, and the hash of each split (``split_hash``)."""

    source: RawSource | None
    sha256: Mapping[str, str]


class ModelProvenance(Record):
    """Where a model comes from: its data, its base model, and each stage that it went through, by name."""

    data: DataRecord
    base: BaseSource | None = OMITTED
    """Pretrained model and tokenizer; ``None`` in a record that an earlier version of Tuneline wrote."""
    stages: Mapping[str, StageProvenance]

    @property
    def parameters_hash(self) -> str:
        """SHA-256 over the parameters of all stages."""
        return parameters_hash(self.stages)

    @property
    def libraries(self) -> dict[str, str]:
        """Version of each library; several if the stages ran with different ones."""
        versions: dict[str, list[str]] = {}
        for stage in self.stages.values():
            for name, version in stage.libraries.items():
                versions.setdefault(name, []).append(version)

        # each version once, in the order of the stages
        return {name: " and ".join(dict.fromkeys(versions[name])) for name in sorted(versions)}


class ExportRecord(UsageRecord):
    """How to use the models of a folder, and where they come from."""

    provenance: ModelProvenance
    split: str | None = OMITTED
    """The reported split, on which the metrics of the models were computed; ``compare`` adds it."""

    @model_validator(mode="before")
    @classmethod
    def _readable(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        if values.get("format") != FORMAT:
            raise ValueError(
                f"its format is {values.get('format')}, and this version of Tuneline reads {FORMAT}"
            )
        return values


class Saturation(Record):
    """Result of the saturation check of an int8 model."""

    possible: bool
    """True if some activations make a sum of two products exceed 16 bits."""
    largest_sum: int
    """Largest magnitude that the sum of two products can have."""
    sums: int
    """Sums that were computed; 0 where none can saturate."""
    saturated: int
    """Sums that exceed 16 bits, among the computed ones."""


class ModelComparison(Record):
    """Comparison of one exported model with the trained model.

    Besides the keys below it has the compared metric under its name, its drop as ``METRIC_drop`` with the
    ends of the interval as ``METRIC_drop_low`` and ``METRIC_drop_high``, and ``calibration_error`` for a
    classifier.
    """

    __pydantic_extra__: dict[str, Number]

    max_abs_diff: Number
    """Largest absolute difference of a logit."""
    mean_abs_diff: Number
    agreement: Number
    """Mean of ``Task.agreement``: of one label per row, the fraction of rows with the same prediction."""
    agreement_low: Number | None = OMITTED
    agreement_high: Number | None = OMITTED
    """Ends of the exact interval of ``agreement``; ``None`` in a record of an earlier version of Tuneline."""
    flips: int
    """Number of rows with another prediction."""
    saturation: Saturation | None = OMITTED
    """Only of a model with 8-bit products."""
    violations: Sequence[str]
    """Exceeded tolerances, as messages."""
    unclear: Sequence[str] | None = OMITTED
    """Tolerances that these rows can neither prove nor refute, as messages; ``None`` if there are none."""
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
    predictions: str | None = OMITTED
    """SHA-256 of the trained model's predictions, with which the models were compared."""
    trained: Mapping[str, Number]
    models: Mapping[str, ModelComparison]


class Prediction(Record):
    """Prediction of one model for one row."""

    prediction: str | Number
    """Class name, or number."""
    probability: Number | None = OMITTED
    """Probability of the predicted class; ``None`` for a number."""


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
