"""Sections ``validate``, ``evaluate``, ``export``, ``compare`` and ``decide``: limits, metrics, ONNX models.

A data check that is an ``error`` and fails stops the pipeline after the report is written; a ``warning`` is
only reported. docs/data-checks.md describes the checks. ``tuneline/checks/definitions.py`` defines them.
"""

import difflib
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tuneline.core.params.section import (
    FunctionName,
    Positive,
    PositiveFloat,
    Rate,
    Section,
    parse_functions,
)

Split = Literal["train", "validation", "test"]
Precision = Literal["fp32", "int8"]
CheckSeverity = Literal["error", "warning"]

ERROR_CHECKS = (
    "rows", "blank_text", "broken_encoding", "label_set", "absent_classes",
    "conflicting_labels", "leakage", "row_count", "ids_in_vocabulary", "special_tokens", "max_length",
    "column_lengths", "attention_mask", "token_type_ids", "token_labels", "empty_rows", "unknown_rate",
    "truncation_rate",
)  # fmt: skip
"""Checks that stop the pipeline, unless ``severity`` says otherwise."""
WARNING_CHECKS = (
    "control_characters", "length_outliers", "rare_classes",
    "class_names", "class_balance", "duplicates", "near_duplicates", "revealing_words",
    "word_pieces", "label_drift", "length_drift", "vocabulary_overlap", "promoted_rows",
    "promoted_labels", "promoted_lengths", "promoted_vocabulary",
)  # fmt: skip
"""Checks that are only reported, unless ``severity`` says otherwise."""


class DataDriftLimits(Section):
    """Checks of drift: validation and test against train, each split against the promoted model's data.

    A distribution has drifted if a distance is above its limit and significant.
    """

    max_psi: PositiveFloat = 0.25
    """Largest population stability index of labels and of lengths."""
    significance: Annotated[float, Field(gt=0, lt=1)] = 0.001
    """A distance with a p-value above this passes: small splits vary by chance."""
    min_vocabulary: Rate = 0.7
    """Smallest fraction of the word occurrences that are words of the other data."""
    min_rows: Rate = 0.5
    """Smallest number of rows, as a fraction of that of the promoted model's data."""


class ValidateParams(Section):
    """Limits of the data checks. A limit with the name of a check is a fraction of the rows of a split."""

    severity: Mapping[str, CheckSeverity] = {}
    """Severities that are not the default ones: error or warning, by check."""
    min_rows: Positive = 20
    """``rows``: smallest number of rows of a split."""
    min_class_rows: Positive = 5
    """``rare_classes``: smallest number of rows of a class in train."""
    broken_encoding: Rate = 0.01
    """Rows with U+FFFD, or UTF-8 that was read as Latin-1 or Windows-1252."""
    length_outliers: Rate = 0.01
    """Rows that are far longer or shorter than most rows of train."""
    class_balance: Rate = 0.9
    """Rows of the most frequent label, or without any."""
    conflicting_labels: Rate = 0.02
    """Rows whose text has another label, too; in a regression, by more than a standard deviation."""
    duplicates: Rate = 0.05
    """Rows that repeat an earlier row of their split."""
    leakage: Rate = 0.02
    """Rows of validation and test that are in an earlier split."""
    near_duplicates: Rate = 0.25
    """Rows that resemble another row of their split or an earlier one."""
    near_duplicate_similarity: Annotated[float, Field(ge=0.4, lt=1)] = 0.5
    """Fraction of the words that two near-duplicates have in common; rare words count more."""
    revealing_words: Rate = 0.25
    """Rows of a label with the same word or word pair, which hardly another row has."""
    unknown_rate: Rate = 0.05
    """Tokens that the vocabulary does not have."""
    truncation_rate: Rate = 0.2
    """Rows that fill ``tokenize.max_length``."""
    drift: DataDriftLimits = DataDriftLimits()
    """Limits of the drift of labels, lengths, words and rows."""
    own: list[str] | dict[str, Rate] | None = None
    """More checks: functions of the user, ``["project/FILE.py:FUNCTION"]`` (docs/custom-loss.md).

    ``{"project/FILE.py:FUNCTION": 0.01}`` is the largest fraction of the rows of a split that may violate it;
    in a list, it is 0.
    """

    @property
    def functions(self) -> list[FunctionName]:
        """The functions that ``own`` names."""
        return parse_functions("own", self.own or (), taken=ERROR_CHECKS + WARNING_CHECKS)

    @property
    def checks(self) -> tuple[str, ...]:
        """Names of all checks, the user's own checks at the end."""
        return (*ERROR_CHECKS, *WARNING_CHECKS, *(name.function for name in self.functions))

    @model_validator(mode="after")
    def _severities_of_checks(self) -> Self:
        checks = self.checks
        for name in self.severity:
            if name not in checks:
                close = difflib.get_close_matches(name, checks, n=1) or ["one of docs/data-checks.md"]
                raise ValueError(f"severity.{name} is not a data check; did you mean {close[0]}?")
        return self

    def severity_of(self, check: str) -> CheckSeverity:
        """Return the severity of a check: the user's own checks are errors by default."""
        return self.severity.get(check, "warning" if check in WARNING_CHECKS else "error")

    def limit_of(self, check: str) -> float:
        """Return the largest fraction of the rows of a split that may violate a check."""
        limits = self.own if isinstance(self.own, dict) else dict.fromkeys(self.own or (), 0.0)
        for function, limit in zip(self.functions, limits.values(), strict=True):
            if function.function == check:
                return limit
        return float(getattr(self, check, 0.0))


class EvaluateParams(Section):
    """Section ``evaluate``."""

    split: Split = "test"
    """The reported split."""
    metrics: list[str] | None = None
    """More metrics: functions of the user, ``project/FILE.py:FUNCTION`` (docs/custom-loss.md)."""
    slices: list[str] | None = None
    """More slices: functions of the user, ``project/FILE.py:FUNCTION`` (docs/custom-loss.md)."""

    @property
    def metric_functions(self) -> list[FunctionName]:
        """The functions that ``metrics`` names."""
        return parse_functions("evaluate.metrics", self.metrics or ())

    @property
    def slice_functions(self) -> list[FunctionName]:
        """The functions that ``slices`` names."""
        return parse_functions("evaluate.slices", self.slices or ())


class ExportParams(Section):
    """Section ``export``."""

    opset: Annotated[int, Field(ge=18, le=23)] = 20
    """Version of the ONNX operator set. The exporter supports 18 and later."""
    precisions: Annotated[list[Precision], Field(min_length=1)] = ["fp32", "int8"]
    """Precisions to export. fp32 is required, because the others are converted from it."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if "fp32" not in self.precisions:
            raise ValueError(
                "precisions: 'fp32' is required, because the other precisions are converted from it"
            )
        if len(set(self.precisions)) != len(self.precisions):
            raise ValueError("precisions: one of them is listed twice")
        return self


class Tolerance(Section):
    """How far an exported model may differ from the trained one on the reported split."""

    min_agreement: Rate
    """Minimal fraction of rows with the same prediction.

    Of rows with several labels, it is the mean F1 of the sets of the exported model, where the sets of the
    trained one are taken as true.
    """
    max_metric_drop: Annotated[float, Field(ge=0)]
    """Maximal decrease of the metric that decides (``train.metric``)."""


class Fp32Tolerance(Tolerance):
    """Tolerances of fp32, which computes what the trained model does."""

    max_abs_diff: PositiveFloat
    """Maximal absolute difference of any logit."""


class Int8Tolerance(Tolerance):
    """Tolerances of int8, held against intervals: docs/serving.md."""

    required: bool = False
    """True if the pipeline stops when the model fails, as always for fp32.

    ``false``: it continues without publishing the model.
    """


class CompareParams(Section):
    """Section ``compare``: tolerances by precision."""

    close_rmse: PositiveFloat = 0.25
    """Regression: two predictions agree if they differ by at most so many root mean squared errors of the
    trained model.
    """
    fp32: Fp32Tolerance = Fp32Tolerance(max_abs_diff=1.0e-3, min_agreement=0.9999, max_metric_drop=1.0e-4)
    """Tolerances of the fp32 model."""
    int8: Int8Tolerance = Int8Tolerance(min_agreement=0.97, max_metric_drop=0.02)
    """Tolerances of the int8 model. It fails if an interval lies beyond them: docs/serving.md."""

    def tolerance(self, precision: str) -> Tolerance:
        """Return the tolerance of one precision."""
        return self.fp32 if precision == "fp32" else self.int8

    def stops(self, precision: str) -> bool:
        """Return True if a model that fails stops the pipeline: fp32 is always published."""
        return precision == "fp32" or self.int8.required


class CostParams(Section):
    """``decide.costs``: what errors cost, in any unit; a right answer costs nothing."""

    error: PositiveFloat = 1.0
    """Cost of a wrong answer that ``of`` does not name."""
    abstain: PositiveFloat | None = None
    """Cost of no answer, such as a person who reads the row. ``null``: every row gets an answer."""
    of: dict[str, dict[str, Annotated[float, Field(ge=0)]]] = {}
    """Cost of single errors, by the class that is right and the class that is answered:
    ``{fraud: {ok: 50}}``.
    """


class DecideParams(Section):
    """Section ``decide``: what is done with the probabilities of a model, see docs/decide.md."""

    costs: CostParams | None = None
    """What errors and abstentions cost, of one class per row. ``null``: the most probable class is the
    answer.
    """

    @property
    def named_classes(self) -> set[str]:
        """The classes that ``costs.of`` names."""
        classes: set[str] = set()
        if self.costs is not None:
            classes.update(self.costs.of, *self.costs.of.values())
        return classes
