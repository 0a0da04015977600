"""What is known of a run: metrics, parameters and curves, and its comparisons with simple models."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, get_args

from tuneline.core.params.data import TaskKind
from tuneline.core.paths import (
    CHECKS,
    CLASSIFIER,
    COMPARISON,
    EVALUATION,
    METRICS,
    PLOTS,
    PREDICTIONS,
)
from tuneline.core.repository.dvc import md5_of, read_lock
from tuneline.core.stage.records import Metrics, file_hash
from tuneline.judge.evaluation.keys import (
    FROZEN_MODEL,
    INDEPENDENT_ROWS,
    LEAKED_ROWS,
    WITHOUT_LEAKS,
    baseline_key,
    interval_keys,
    over_keys,
)
from tuneline.judge.evaluation.table import ALL_METRICS
from tuneline.judge.metrics.table import Metric, primary_metric
from tuneline.onnx.comparison_records import ComparisonRecord
from tuneline.page.titles import SIMPLE_MODEL_TITLES, positive_class, title_of


def read_evaluation(root: Path) -> Mapping[str, float]:
    """Return all metrics of the evaluation; without them, or if they are of another, those that git has."""
    committed = Metrics.read_values(root / METRICS / "evaluate.json")
    every = Metrics.read_values(root / EVALUATION)
    return every if committed.items() <= every.items() else committed


CurveColumns = Mapping[str, Sequence[float]]
"""Columns of a curve by name; ``step`` is one."""

PRIMARY_METRICS = tuple(primary_metric(kind) for kind in get_args(TaskKind))
"""The primary metric of each kind of task."""
OVERFIT = 0.1
"""Least relative rise of the validation loss that is called overfitting."""


UNIT = "independent rows"
"""What intervals stand on: of copies, and of rows of a group, one counts."""
DIGITS = 3
"""Digits of a metric behind the point, in all sentences: a difference that they do not show is none."""


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run.

    Attributes:
        evaluated, training: ``reports/evaluation.json`` and ``metrics/train.json``; empty if there is none.
        params: Parameters of the run, by dotted key.
        validation, losses: The curves in ``plots/training/``; empty if there are none.
        compared: Comparison of the exported models with this one; ``None`` if there is none.
        positive: The class that F1 of two classes is of; ``None`` if there are more, or it is not known.
        word_pieces: What the data check ``word_pieces`` found; empty if it passed.
    """

    evaluated: Mapping[str, float]
    training: Mapping[str, float] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    validation: CurveColumns = field(default_factory=dict)
    losses: CurveColumns = field(default_factory=dict)
    compared: ComparisonRecord | None = None
    positive: str | None = None
    word_pieces: str = ""

    @classmethod
    def read(cls, root: Path, params: Mapping[str, Any]) -> Self:
        """Read metrics and curves of a project; what is missing or invalid is empty."""
        curves = root / PLOTS / "training"
        return cls(
            evaluated=read_evaluation(root),
            training=Metrics.read_values(root / METRICS / "train.json"),
            params=params,
            validation=read_curve(curves / "validation.tsv"),
            losses=read_curve(curves / "loss.tsv"),
            compared=read_comparison(root),
            positive=read_positive(root / CLASSIFIER),
            word_pieces=read_word_pieces(root),
        )

    def title_of(self, metric: str) -> str:
        """Return a metric's name for people."""
        return title_of(metric, self.positive)

    @property
    def metric(self) -> Metric | None:
        """The metric that decides in the project; ``None`` if the run has none.

        It is the one with an interval in ``metrics/evaluate.json``: first of all ``train.metric``, then
        the primary metric of the task.
        """
        of_params = ALL_METRICS.get(str(self.params.get("train.metric")))
        candidates = (of_params, *PRIMARY_METRICS, *ALL_METRICS.values())
        for metric in candidates:
            if (
                metric is not None
                and metric.name in self.evaluated
                and interval_keys(metric)[0] in self.evaluated
            ):
                return metric
        return next((metric for metric in PRIMARY_METRICS if metric.name in self.evaluated), None)

    @property
    def rows(self) -> int:
        """Rows of the reported split."""
        return int(self.evaluated.get("rows", 0))

    @property
    def clusters(self) -> int:
        """Rows of the reported split that are independent; of copies, and of rows of a group, one counts."""
        return int(self.evaluated.get(INDEPENDENT_ROWS, self.rows))

    @property
    def is_by_time(self) -> bool:
        """True if the data is divided by time: texts of train come again in test, as they do in use."""
        division = self.params.get("data.split") or {}
        return bool(division.get("by_time"))

    @property
    def leaked_share(self) -> float:
        """Share of the rows that a model may know by heart, and would not meet in use.

        They repeat or resemble a row of an earlier split; by time, none counts.
        """
        if self.is_by_time:
            return 0.0
        return self.evaluated.get(LEAKED_ROWS, 0.0) / max(self.rows, 1)

    @property
    def without_leaks(self) -> Self:
        """The run as if the reported split had no leaked rows; the figures of all rows are left out."""
        evaluated = {}
        for key, value in self.evaluated.items():
            if WITHOUT_LEAKS in key:
                evaluated[key.replace(WITHOUT_LEAKS, "")] = value
        evaluated["rows"] = self.rows - self.evaluated.get(LEAKED_ROWS, 0.0)
        return replace(self, evaluated=evaluated)

    @property
    def is_fine_tuned(self) -> bool:
        """True if the training began with a pretrained checkpoint."""
        return self.params.get("model.checkpoint") is not None

    @property
    def is_frozen(self) -> bool:
        """True if the model is a linear one on the frozen checkpoint, chosen by the user or by validation."""
        return is_frozen(self.params, self.training)

    @property
    def has_tried_both(self) -> bool:
        """True if the fine-tuned model and the linear one on the frozen checkpoint were compared."""
        return self.params.get("model.head") == "auto"

    @property
    def overfits(self) -> bool:
        """True if the validation loss rises while the training loss falls: more steps would make it worse."""
        validation = self.validation.get("loss", ())
        training = self.losses.get("loss", ())
        if len(validation) < 2 or len(training) < 2:
            return False
        has_risen = validation[-1] > min(validation) * (1 + OVERFIT)
        return has_risen and training[-1] < training[0]

    @property
    def validated(self) -> tuple[str, Sequence[float]]:
        """Name and values of the metric that chooses the kept weights, higher being better.

        Instead of a function of the user, it is the loss: the curve does not say which values are better.
        """
        name = next(
            (column for column in self.validation if column in ALL_METRICS and column != "loss"), "loss"
        )
        values = self.validation.get(name, ())
        if not ALL_METRICS[name].greater_is_better:
            return name, [-value for value in values]
        return name, values

    @property
    def evidence(self) -> str:
        """The number of rows, and of those that are independent, in words."""
        if self.clusters == self.rows:
            return f"{self.rows:,} rows"
        return f"{self.rows:,} rows, {self.clusters:,} of them independent"

    @property
    def longer(self) -> str:
        """The parameter that trains twice as long, as ``KEY=VALUE``."""
        steps = self.params.get("train.max_steps")
        if steps:
            return f"train.max_steps={2 * steps}"
        epochs = self.params.get("train.epochs") or 1
        return f"train.epochs={2 * epochs}"


def is_frozen(params: Mapping[str, Any], training: Mapping[str, float]) -> bool:
    """Return True if a run published a linear model on the frozen checkpoint.

    Args:
        params: Parameters of the run, by dotted key.
        training: Values of ``metrics/train.json``.
    """
    head = params.get("model.head")
    return head == "frozen" or (head == "auto" and training.get("head_is_frozen") == 1)


def read_positive(model: Path) -> str | None:
    """Return the class that F1 of two classes is of, from the configuration of a trained model.

    No task here: ``tuneline show`` starts without numpy.
    """
    try:
        config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    names = dict(sorted(config.get("id2label", {}).items()))  # two ids have one digit each
    return positive_class(list(names.values()), config.get("decisions", {}))


def read_word_pieces(root: Path) -> str:
    """Return what the data check ``word_pieces`` found; empty if it passed, or was not run."""
    try:
        entries = json.loads((root / CHECKS / "checks.json").read_text(encoding="utf-8"))["checks"]
    except (OSError, ValueError, KeyError):
        return ""
    failed = [entry for entry in entries if entry["check"] == "word_pieces" and entry["status"] == "failed"]
    return failed[0]["found"] if failed else ""


def read_curve(path: Path) -> CurveColumns:
    """Return the columns of a CSV or TSV file of numbers; empty if it is missing, invalid or has no rows.

    An empty cell is NaN. No numpy here: ``tuneline show`` starts without it.
    """
    delimiter = "\t" if path.suffix == ".tsv" else ","
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *lines = csv.reader(file, delimiter=delimiter)
        if not lines:
            return {}
        rows = []
        for line in lines:
            rows.append([float(cell or "nan") for cell in line])
        return dict(zip(header, zip(*rows, strict=True), strict=True))
    except (OSError, ValueError):
        return {}


@dataclass(frozen=True)
class Comparison:
    """The metric that decides, of the trained model and of a simple one on the same rows.

    ``low`` and ``high`` are the ends of the 95 % interval of ``model - simple``.
    """

    name: str
    model: float
    simple: float
    low: float
    high: float

    def __str__(self) -> str:
        return (
            f"{self.model:.3f} against {self.simple:.3f}, 95 % interval of the difference"
            f" {self.low:+.3f} to {self.high:+.3f}"
        )

    @property
    def title(self) -> str:
        """Name of the simple model for people."""
        return SIMPLE_MODEL_TITLES[self.name]

    @property
    def verb(self) -> str:
        """What the trained model is to a simple one that it does not beat."""
        return "is worse than" if self.is_worse else "is not clearly better than"

    @property
    def beaten(self) -> bool:
        """True if the trained model is better, and the difference is not chance."""
        return as_shown(self.low) > 0

    @property
    def is_worse(self) -> bool:
        """True if the trained model is worse, and the difference is not chance."""
        return as_shown(self.high) < 0


def rivals(frozen: bool) -> dict[str, str]:
    """Return the ``SIMPLE_MODELS`` that a model must beat.

    A ``frozen`` model, linear on the checkpoint, is not compared with itself.
    """
    titles = dict(SIMPLE_MODEL_TITLES)
    if frozen:
        del titles[FROZEN_MODEL]
    return titles


def comparisons(run: RunFacts, metric: Metric) -> list[Comparison]:
    """Return the comparisons that ``metrics/evaluate.json`` has, the best simple model first."""
    compared = []
    for name in rivals(run.is_frozen):
        low_key, high_key = over_keys(metric, name)
        keys = (metric.name, str(baseline_key(metric, name)), low_key, high_key)
        if all(key in run.evaluated for key in keys):
            model, simple, low, high = (run.evaluated[key] for key in keys)
            compared.append(Comparison(name, model, simple, low, high))
    return sorted(compared, key=lambda comparison: -comparison.simple)


def unbeaten(run: RunFacts, metric: Metric) -> list[Comparison]:
    """Return the comparisons with simple models that are not beaten, the best simple model first."""
    return [comparison for comparison in comparisons(run, metric) if not comparison.beaten]


def as_shown(value: float) -> float:
    """Return a number as sentences show it, so that what is said of it fits the digits beside it."""
    return round(value, DIGITS) + 0.0  # no -0.0


def present_predictions(root: Path) -> Path | None:
    """Return the file of predictions; ``None`` if it is missing, or of another run than the metrics.

    Git has ``dvc.lock`` and the metrics, and DVC the predictions and the comparison: after ``git checkout``
    alone they are of different results.
    """
    path = root / PREDICTIONS
    if not path.exists():
        return None
    locked = read_lock(root).out(PREDICTIONS.as_posix())
    if locked and locked != md5_of(path):
        return None
    return path


def read_comparison(root: Path) -> ComparisonRecord | None:
    """Return the comparison with the present predictions; ``None`` if it is missing, invalid or of others."""
    record = ComparisonRecord.read_if_valid(root / COMPARISON / "comparison.json")
    path = present_predictions(root)
    if record is None or path is None or file_hash(path) != record.predictions:
        return None
    return record


def is_stale(root: Path, comparison: ComparisonRecord | None) -> bool:
    """Return True if the project's comparison is of another model, so that ``comparison`` is ``None``."""
    return comparison is None and (root / COMPARISON / "comparison.json").exists()
