"""The verdict on a trained model: what a careful colleague would say, and what to do.

It is made from the metrics and curves of the run.

It is a function of numbers: ``tuneline show``, the page, the model card and ``tuneline evaluate`` all print
this one.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, Self, get_args

from tuneline.core.paths import FIRST_SWEEP, METRICS, PLOTS, TIMING
from tuneline.core.records import Metrics, Timing
from tuneline.evaluation.keys import (
    AT_HALF,
    INDEPENDENT_ROWS,
    LEAKED_ROWS,
    MAJORITY,
    MOST_PREDICTED,
    NEVER_PREDICTED,
    PREDICTED_CLASSES,
    WITHOUT_LEAKS,
    baseline_key,
    clean_keys,
    interval_keys,
    leak_keys,
    over_keys,
)
from tuneline.evaluation.table import ALL_METRICS
from tuneline.metrics.table import Metric, primary_metric
from tuneline.onnx.records import ComparisonRecord
from tuneline.results import exported, label_sets
from tuneline.results.evidence import rows_in_words, unit_of_rows
from tuneline.results.findings import Finding, as_shown
from tuneline.results.titles import PREDICTION_TERMS, SIMPLE_MODEL_TITLES, title_of
from tuneline.tasks.task import MetricKind

CurveColumns = Mapping[str, Sequence[float]]
"""Columns of a curve by name; ``step`` is one."""

PRIMARY_METRICS = tuple(primary_metric(kind) for kind in get_args(MetricKind))
"""The primary metric of each kind of task."""
EXPERIMENT = "tuneline run"
"""Command that trains with another value."""
TRY_BOTH = f"{EXPERIMENT} model.head=auto"
REVIEW = "tuneline labels review"
CLEAR_LOSS = 0.02
"""Least relative change of a loss that is more than noise."""
OVERFIT = 0.1
"""Least relative rise of the validation loss that is called overfitting."""
STILL_FALLS = 0.1
"""Least relative fall of the validation loss at the last evaluation that asks for more steps.

A schedule that ends at a learning rate of 0 lowers the last loss also where the model has learned what it
can. On the sample, after falls of 5 and 3 % (seeds 42 and 2), training twice as long gave a test accuracy of
0.956 and 0.949 instead of 0.957 and 0.956.
"""
FEW_ROWS = 2_000
"""Independent rows of the reported split below which more of them could decide an unclear comparison."""
MOST_LEAKED = 0.5
"""Largest share of leaked rows with which the metric of all rows is judged."""
FEWEST = 10
"""Fewest independent rows that are judged at all."""
AS_GOOD = 0.03
"""Largest fall of the validation metric after its best evaluation that few rows show by chance."""
UNBALANCED = 0.8
"""Majority accuracy from which class weights are worth a try."""
CONFIDENT = 0.9
"""Confidence of an error from which its label may be the mistake.

It is one only if the model is right this often where it is as confident.
"""


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run.

    Attributes:
        evaluated, training: ``metrics/evaluate.json`` and ``metrics/train.json``; empty if there is none.
        params: Parameters of the run, by dotted key.
        validation, losses: The curves in ``plots/training/``; empty if there are none.
        compared: Comparison of the exported models with this one; ``None`` if there is none.
        seconds: Seconds that the stage ``train`` took; ``None`` if they are not known.
        sweep: The sweep that ``tuneline init`` wrote, if there is one.
    """

    evaluated: Mapping[str, float]
    training: Mapping[str, float] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    validation: CurveColumns = field(default_factory=dict)
    losses: CurveColumns = field(default_factory=dict)
    compared: ComparisonRecord | None = None
    seconds: float | None = None
    sweep: Path | None = None

    @classmethod
    def read(cls, root: Path, params: Mapping[str, Any]) -> Self:
        """Read metrics and curves of a project; what is missing or invalid is empty."""
        curves = root / PLOTS / "training"
        timing = Timing.read_if_valid(root / TIMING / "train.json")
        seconds = None
        if timing is not None:
            seconds = timing.values.get("seconds")

        return cls(
            evaluated=Metrics.read_values(root / METRICS / "evaluate.json"),
            training=Metrics.read_values(root / METRICS / "train.json"),
            params=params,
            validation=read_curve(curves / "validation.tsv"),
            losses=read_curve(curves / "loss.tsv"),
            compared=exported.read_comparison(root),
            seconds=seconds,
            sweep=FIRST_SWEEP if (root / FIRST_SWEEP).exists() else None,
        )

    @property
    def metric(self) -> Metric | None:
        """The metric that decides in the project; ``None`` if the run has none.

        It is the one with an interval in ``metrics/evaluate.json``: first of all ``train.metric``. In a file
        of an earlier version, it is the primary metric of the task.
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
    def unit(self) -> str:
        """What independent rows are, in words."""
        return unit_of_rows(self.rows, self.clusters, self.is_grouped)

    @property
    def evidence(self) -> str:
        """The number of rows, and of those that are independent, in words."""
        return rows_in_words(self.rows, self.clusters, self.is_grouped)

    @property
    def is_grouped(self) -> bool:
        """True if the data is divided by a column of groups."""
        division = self.params.get("data.split") or {}
        return bool(division.get("by"))

    @property
    def leaked_share(self) -> float:
        """Share of the rows that repeat or resemble a row of an earlier split."""
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
        return _overfitting(self) is not None

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


def read_curve(path: Path, suffix: str | None = None) -> CurveColumns:
    """Return the columns of a CSV or TSV file of numbers; empty if it is missing, invalid or has no rows.

    An empty cell is NaN.

    A file in DVC's cache has no ``suffix`` of its own. No numpy here: ``tuneline show`` starts without it.
    """
    delimiter = "\t" if (suffix or path.suffix) == ".tsv" else ","
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


def judge_run(run: RunFacts) -> list[Finding]:
    """Return the findings, the most important first; the first one compares the model with the simple models.

    Without metrics there is no finding.
    """
    metric = run.metric
    if metric is None:
        return []

    undecided = _undecided(run, metric)
    findings = _collapsed(run, metric) or undecided or _of_clean_rows(run, metric)
    if not findings:
        findings = _with_sets_of_labels(run, metric, _against_simple_models(run, metric))
    candidates = [_chosen_head(run), _never_predicted(run, metric), _thresholds(run, metric)]
    # The curves say nothing of a linear model, which is fitted in one go.
    if not run.is_frozen:
        candidates.append(_diverged(run))
    # Rows that cannot tell how good a model is cannot tell what a longer training is worth.
    if not run.is_frozen and not undecided:
        candidates += [_still_improving(run), _overfitting(run)]
    if not undecided:
        candidates += [leak_finding(run), _few_rows(run, metric)]
    for finding in candidates:
        if finding is not None:
            findings.append(finding)

    if run.compared is not None:
        findings += exported.findings(run.compared)
    return findings


def _has_collapsed(run: RunFacts, metric: Metric) -> bool:
    """Return True if all rows get the same prediction, unless it is right for all of them."""
    return run.evaluated.get(MOST_PREDICTED) == 1 and run.evaluated[metric.name] < 1


def _collapsed(run: RunFacts, metric: Metric) -> list[Finding]:
    if not _has_collapsed(run, metric):
        return []
    majority = run.evaluated.get(str(baseline_key(metric, MAJORITY)), 0.0)
    prediction = PREDICTION_TERMS[metric.kinds[0]].prediction
    sentence = (
        f"The model predicts the same {prediction} for all {run.rows:,} rows: it has learned nothing from the"
        f" texts ({title_of(metric.name)} {run.evaluated[metric.name]:.3f}, the majority baseline"
        f" {majority:.3f})."
    )
    # No label at all can also mean that the probabilities are below the thresholds.
    lower_thresholds = _lower_thresholds(run)
    if lower_thresholds and run.evaluated.get(PREDICTED_CLASSES) == 0:
        advice = f"First {lower_thresholds}: no probability is above a threshold."
        return [Finding("one class", "bad", sentence, advice)]
    if run.is_frozen:
        return [Finding("one class", "bad", sentence, _learn_more(run))]

    # Both a rate that is too high and too few steps collapse a model.
    lower = "with a lower learning rate"
    rate = run.params.get("train.learning_rate")
    if rate:
        lower += f" (it was {rate:g})"
    if run.overfits:
        advice = f"Train {lower}."
    else:
        advice = f"Train longer ({run.longer}) or {lower}."
    unbalanced = run.evaluated.get("majority_accuracy", 0.0) > UNBALANCED
    if unbalanced and not run.params.get("train.class_weights"):
        advice += " Or try train.class_weights=balanced."
    return [Finding("one class", "bad", sentence, advice)]


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

    @property
    def title(self) -> str:
        """Name of the simple model for people."""
        return SIMPLE_MODEL_TITLES[self.name]

    @property
    def beaten(self) -> bool:
        """True if the trained model is better, and the difference is not chance."""
        return as_shown(self.low) > 0

    @property
    def is_worse(self) -> bool:
        """True if the trained model is worse, and the difference is not chance."""
        return as_shown(self.high) < 0

    @property
    def numbers(self) -> str:
        """Both values and the interval, in words."""
        return (
            f"{self.model:.3f} against {self.simple:.3f}, 95 % interval of the difference {self.low:+.3f} to"
            f" {self.high:+.3f}"
        )


def rivals(frozen: bool) -> dict[str, str]:
    """Return the ``SIMPLE_MODELS`` that a model must beat.

    A ``frozen`` model, linear on the checkpoint, is not compared with itself.
    """
    titles = dict(SIMPLE_MODEL_TITLES)
    if frozen:
        del titles["frozen"]
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


def _unbeaten(run: RunFacts, metric: Metric) -> list[Comparison]:
    """Return the comparisons with simple models that are not beaten, the best simple model first."""
    return [comparison for comparison in comparisons(run, metric) if not comparison.beaten]


UNDECIDED = "undecided"
"""Name of the finding that the rows cannot tell how good the model is."""
DIVIDE = (
    "Divide the data by what such rows have in common (data.split.by: a customer, a document), so that none"
    " of it is in two splits, or leave the copies out (docs/data-checks.md), and train again."
)


def _undecided(run: RunFacts, metric: Metric) -> list[Finding]:
    """Return that too few independent rows, or too few that training has not seen, are left to judge."""
    value = run.evaluated[metric.name]
    if run.leaked_share > MOST_LEAKED:
        clean = run.without_leaks
        if metric.name in clean.evaluated and clean.clusters >= FEWEST:
            return []
        leaked = int(run.evaluated[LEAKED_ROWS])
        sentence = (
            f"These rows cannot tell how good the model is: {leaked:,} of {run.rows:,} repeat or resemble a"
            f" row of an earlier split, which it may know by heart ({title_of(metric.name)} {value:.3f})."
        )
        return [Finding(UNDECIDED, "bad", sentence, DIVIDE)]

    if run.clusters == run.rows or run.clusters >= FEWEST:
        return []
    sentence = (
        f"These rows cannot tell how good the model is: {run.evidence}, too few for an interval"
        f" ({title_of(metric.name)} {value:.3f})."
    )
    return [Finding(UNDECIDED, "bad", sentence, f"Test on more {run.unit}.")]


def _of_clean_rows(run: RunFacts, metric: Metric) -> list[Finding]:
    """Return what the rows without the leaked ones say, where most are leaked; else nothing."""
    if run.leaked_share <= MOST_LEAKED:
        return []
    findings = []
    for finding in _against_simple_models(run.without_leaks, metric):
        sentence = f"Without rows that repeat or resemble a row of an earlier split: {finding.sentence}"
        findings.append(replace(finding, sentence=sentence))
    return findings


def _against_simple_models(run: RunFacts, metric: Metric) -> list[Finding]:
    not_above = _not_above_uninformed(run, metric)
    if not_above:
        sentence = f"{title_of(metric.name)} is not {not_above}."
        return [Finding("not above the majority", "bad", sentence, _learn_more(run))]

    unbeaten = _unbeaten(run, metric)
    if unbeaten:
        best = unbeaten[0]
        verb = "is worse than" if best.is_worse else "is not clearly better than"
        sentence = f"The model {verb} {best.title}: {title_of(metric.name)} {best.numbers}."
        if len(unbeaten) > 1:
            titles = " and ".join(comparison.title for comparison in unbeaten[1:])
            sentence += f" Nor is it better than {titles}."
        return [Finding("not above a simple model", "bad", sentence, _instead(run, best))]

    compared = comparisons(run, metric)
    if not compared:
        return []
    return [Finding("good", "good", _praise(run, metric, compared))]


def _with_sets_of_labels(run: RunFacts, metric: Metric, compared: list[Finding]) -> list[Finding]:
    """Add what the metric hides of several labels; a model with such a fault is not called good."""
    faults = label_sets.faults_of_sets(run.evaluated, metric, _threshold_rule(run), rivals(run.is_frozen))
    if not faults or not compared or compared[0].level != "good":
        return [*compared, *faults]
    sentence = compared[0].sentence.removeprefix(PRAISE)
    return [*faults, Finding("above the simple models", "note", sentence)]


PRAISE = "Good: "


def _not_above_uninformed(run: RunFacts, metric: Metric) -> str:
    """Return why the metric is not above predictions without the text; empty if it is above them.

    The words end the sentence "is not ...".

    Their value is either known by convention, or measured: the majority baseline.
    """
    low_key, high_key = interval_keys(metric)
    low = run.evaluated.get(low_key)
    if metric.uninformed is not None and low is not None and as_shown(low) <= metric.uninformed:
        high = run.evaluated.get(high_key)
        value = run.evaluated[metric.name]
        return (
            f"clearly above {metric.uninformed:g}, that of predictions without the text: {value:.3f},"
            f" 95 % interval {low:.3f} to {high:.3f}"
        )

    for comparison in _unbeaten(run, metric):
        if comparison.name == MAJORITY:
            above = "above" if comparison.is_worse else "clearly above"
            return f"{above} {comparison.title}: {comparison.numbers}"
    return ""


LARGER = "fine-tune a larger checkpoint (tuneline init FILE --checkpoint NAME)"


def _learn_more(run: RunFacts) -> str:
    """Return what to do about a model that is not above predictions without the text."""
    look = f"look at the labels ({REVIEW})"
    if run.is_frozen and not run.has_tried_both:
        return f"Fine-tune as well ({TRY_BOTH}), get more data, and {look}."
    if run.is_frozen:
        return (
            "Neither the fine-tuned model nor the linear one has learned enough from these rows: get more"
            f" data, {LARGER}, and {look}."
        )
    if run.overfits:
        return f"It overfits, so more steps would not help: get more data, {LARGER}, and {look}."

    advice = f"Train longer ({run.longer}), and {look}."
    if not run.is_fine_tuned:
        advice = f"Fine-tune a pretrained checkpoint (tuneline init FILE --checkpoint NAME). {advice}"
    return advice


def _instead(run: RunFacts, best: Comparison) -> str:
    """Return what to do about a simple model that is not beaten."""
    command = f" ({EXPERIMENT} model.head=frozen)" if best.name == "frozen" else ""
    if best.model == 1:
        return f"Nothing is left to gain on these rows: use the simpler model{command}, or test on more rows."

    # A simple model that is clearly better is to be used; one that is as good is only the cheaper choice.
    if best.is_worse and run.is_fine_tuned:
        advice = f"Use {best.title}{command}, or get more data."
    elif best.is_worse:
        advice = f"Use {best.title}{command}, or fine-tune a pretrained checkpoint."
    elif not run.is_fine_tuned:
        advice = (
            "Fine-tune a pretrained checkpoint (tuneline init FILE --checkpoint NAME), get more data, or use"
            " the simpler model."
        )
    elif run.is_frozen and run.has_tried_both:
        advice = (
            f"Fine-tuning was tried, too, and was no better: get more data, {LARGER}, or use the simpler"
            " model."
        )
    elif run.is_frozen:
        advice = f"Fine-tune as well ({TRY_BOTH}), get more data, or use the simpler model."
    elif best.name != "frozen":
        advice = f"Get more data, {LARGER}, or use the simpler model."
    elif run.has_tried_both:
        advice = f"Validation has chosen this one of the two: get more data, or {LARGER}."
    else:
        advice = f"Let validation decide between the two ({TRY_BOTH}), or use the simpler model{command}."
    return advice


def _praise(run: RunFacts, metric: Metric, compared: Sequence[Comparison]) -> str:
    value = f"{run.evaluated[metric.name]:.3f}"
    low_key, high_key = interval_keys(metric)
    low = run.evaluated.get(low_key)
    if low is not None:
        high = run.evaluated.get(high_key)
        value += f" (95 % interval {low:.3f} to {high:.3f})"

    best = compared[0]
    rival = best.title
    if len(compared) > 1:
        rival += ", the best of the simple models"
    difference = f"{best.simple:.3f}, difference {best.low:+.3f} to {best.high:+.3f}"
    return f"{PRAISE}{title_of(metric.name)} {value} on {run.evidence}, clearly above {rival} ({difference})."


def _never_predicted(run: RunFacts, metric: Metric) -> Finding | None:
    never = int(run.evaluated.get(NEVER_PREDICTED, 0))
    predicted = int(run.evaluated.get(PREDICTED_CLASSES, 0))
    if not never or _has_collapsed(run, metric):
        return None

    terms = PREDICTION_TERMS[metric.kinds[0]]
    verb = "is" if never == 1 else "are"
    fraction = run.evaluated.get(MOST_PREDICTED, 0.0)
    sentence = (
        f"{never} of {never + predicted} {terms.classes} {verb} never predicted; {fraction:.0%} of the rows"
        f" get the same {terms.prediction}."
    )
    remedy = ", try train.class_weights=balanced,"
    lower_thresholds = _lower_thresholds(run)
    if lower_thresholds:
        remedy = f", {lower_thresholds},"
    elif run.params.get("train.class_weights") or run.is_frozen:
        remedy = ""
    advice = f"Get more rows of the {terms.classes} without predictions{remedy} or join rare ones."
    return Finding("never predicted", "warning", sentence, advice)


def _lower_thresholds(run: RunFacts) -> str:
    """Return how rows can get more labels; empty where thresholds are chosen for that, or there are none."""
    if AT_HALF not in run.evaluated:
        return ""
    rule = _threshold_rule(run)
    if rule["choose"] == "half":
        return label_sets.CHOOSE
    if rule["choose"] == "precision":
        return f"ask for less precision (train.thresholds.target was {rule['target']:g})"
    return ""


def _threshold_rule(run: RunFacts) -> Mapping[str, Any]:
    """Return ``train.thresholds``, by key."""
    return {"choose": "f1", **(run.params.get("train.thresholds") or {})}


def _thresholds(run: RunFacts, metric: Metric) -> Finding | None:
    """Return that thresholds of 0.5 would clearly be better than the chosen ones, where there are any."""
    # AT_HALF says nothing of another metric.
    if metric.name != "macro_f1":
        return None
    _, high_key = interval_keys(metric)
    high = run.evaluated.get(high_key)
    at_half = run.evaluated.get(AT_HALF)
    if high is None or at_half is None or as_shown(at_half) <= as_shown(high):
        return None
    sentence = (
        f"With thresholds of 0.5, {title_of(metric.name)} would be {at_half:.3f} instead of"
        f" {run.evaluated[metric.name]:.3f}"
    )
    choose = _threshold_rule(run)["choose"]
    if choose in ("precision", "recall"):
        return Finding("thresholds", "note", f"{sentence}: the thresholds are chosen for the {choose}.")
    sentence += ": the thresholds that suit validation do not suit these rows."
    advice = "Get more rows of validation, or set train.thresholds.choose=half."
    return Finding("thresholds", "warning", sentence, advice)


def _chosen_head(run: RunFacts) -> Finding | None:
    """Return a note about the model that ``model.head: auto`` has chosen."""
    frozen = run.training.get("frozen_calibrated_loss")
    tuned = run.training.get("tuned_calibrated_loss")
    if run.params.get("model.head") != "auto" or frozen is None or tuned is None:
        return None

    if run.is_frozen:
        chosen = "the linear one"
        is_worse = frozen > tuned
    else:
        chosen = "the fine-tuned one"
        is_worse = tuned > frozen
    sentence = (
        f"Validation has chosen {chosen}: loss {frozen:.3f} with the linear model on the frozen checkpoint,"
        f" {tuned:.3f} with the fine-tuned one"
    )
    if is_worse and run.training.get("head_by_metric") and run.metric is not None:
        sentence += f"; its {title_of(run.metric.name)} is clearly better"
    elif is_worse:
        sentence += (
            ", which is no clear difference: without one, the linear model is taken for pairs, and the"
            " fine-tuned one for single texts"
        )
    return Finding("chosen head", "note", f"{sentence}.")


def _diverged(run: RunFacts) -> Finding | None:
    losses = run.losses.get("loss", ())
    if len(losses) < 4:
        return None
    advice = "Lower the learning rate."
    rate = run.params.get("train.learning_rate")
    if rate:
        advice = f"Lower the learning rate (train.learning_rate={rate / 3:.1g})."

    for index, loss in enumerate(losses):
        if not math.isfinite(loss):
            sentence = f"The training loss is not a finite number at step {run.losses['step'][index]:.0f}."
            return Finding("diverged", "bad", sentence, advice)

    # Single losses are noisy: compare the means of quarters. A rest of up to three losses is left out.
    size = len(losses) // 4
    means = []
    for start in range(0, len(losses) - size + 1, size):
        means.append(fmean(losses[start : start + size]))
    first = means[0]
    lowest = min(means)
    last = means[-1]
    if last <= first * (1 - CLEAR_LOSS):
        return None
    if last > lowest * (1 + OVERFIT):
        sentence = f"The training loss rises: from {lowest:.3f} to {last:.3f} at the end."
        return Finding("diverged", "bad", sentence, advice)
    sentence = f"The training loss does not fall: {first:.3f} at first, {last:.3f} at the end."
    return Finding("diverged", "warning", sentence, advice)


def _still_improving(run: RunFacts) -> Finding | None:
    name, metric = _validated(run)
    losses = run.validation.get("loss", ())
    steps = run.validation.get("step", ())
    if len(steps) < 2:
        return None
    is_best = as_shown(metric[-1]) > as_shown(max(metric[:-1]))
    if not is_best or losses[-1] > min(losses[:-1]) * (1 - STILL_FALLS):
        return None
    values = run.validation.get(name, ())
    sentence = (
        f"Validation was still improving at the last step: {name} {values[-2]:.3f} to {values[-1]:.3f}, "
        f"loss {losses[-2]:.3f} to {losses[-1]:.3f} since step {steps[-2]:.0f}."
    )
    return Finding("still improving", "warning", sentence, f"Train longer: {run.longer}.")


def _validated(run: RunFacts) -> tuple[str, Sequence[float]]:
    """Return the name and values of the metric that chooses the kept weights, higher being better."""
    name = next((column for column in run.validation if column not in ("step", "loss")), "loss")
    values = run.validation.get(name, ())
    if name in ALL_METRICS and not ALL_METRICS[name].greater_is_better:
        return name, [-value for value in values]
    return name, values


def _overfitting(run: RunFacts) -> Finding | None:
    validation = run.validation.get("loss", ())
    training = run.losses.get("loss", ())
    if len(validation) < 2 or len(training) < 2:
        return None
    if validation[-1] <= min(validation) * (1 + OVERFIT) or training[-1] >= training[0]:
        return None

    best = list(validation).index(min(validation))
    best_step = run.validation.get("step", ())[best]  # the step after which the validation loss rises
    steps_per_epoch = _steps_per_epoch(run)
    if steps_per_epoch:
        since = f"epoch {best_step / steps_per_epoch:.2g}"
    else:
        since = f"step {best_step:.0f}"
    sentence = (
        f"The model overfits since {since}: the validation loss rises from {validation[best]:.3f} to"
        f" {validation[-1]:.3f}, the training loss falls."
    )

    # The last weights were kept: what matters is how much worse they are than the best ones.
    if run.params.get("train.keep", "best") != "best":
        name, metric = _validated(run)
        if metric[-1] >= max(metric) - AS_GOOD:
            advice = f"Its {name} is as good as before, its confidence is too high: do not trust that."
            return Finding("overfitting", "note", sentence, advice)
        return Finding("overfitting", "warning", sentence, "Set train.keep=best.")

    # The metric can be best at a later step than the loss: its weights are too sure of themselves.
    if run.training.get("best_step", best_step) > best_step:
        advice = "The weights that were kept are of a later step: do not trust their confidence."
        return Finding("overfitting", "warning", sentence, advice)

    advice = "The weights before that were kept."
    if steps_per_epoch:
        epochs = max(1, math.ceil(best_step / steps_per_epoch))
        if epochs < run.params["train.epochs"]:
            advice += f" train.epochs={epochs} takes less time."
    return Finding("overfitting", "note", sentence, advice)


def _steps_per_epoch(run: RunFacts) -> float | None:
    """Return the steps of an epoch; ``None`` if it is not the epochs that end the training."""
    epochs = run.params.get("train.epochs")
    if not epochs or run.params.get("train.max_steps"):
        return None
    if run.params.get("train.early_stopping") is not None:
        return None
    return float(run.training.get("steps", 0) / epochs)


class LeakWords(NamedTuple):
    """What a sentence says of leaked rows."""

    leak: str
    without: str
    raised: str
    lowered: str
    unclear: str


LEAKED_ROW = LeakWords(
    "repeats or resembles",
    "without it",
    "This row raises it",
    "This row lowers it",
    "This row does not clearly change it",
)
SEVERAL_LEAKED_ROWS = LeakWords(
    "repeat or resemble", "without them", "They raise it", "They lower it", "They do not clearly change it"
)


def leak_finding(run: RunFacts) -> Finding | None:
    """Return the metric that decides without leaked rows, and whether these raise it.

    Leaked rows repeat or resemble a row of an earlier split.

    ``None`` if there is no leaked row, or no other row.
    """
    metric = run.metric
    if metric is None:
        return None
    keys = (metric.name, *clean_keys(metric), *leak_keys(metric))
    if not all(key in run.evaluated for key in keys):
        return None

    # The gain is the metric of every row less the metric without the leaked ones.
    every, without, low, high, gain_low, gain_high = (run.evaluated[key] for key in keys)
    gain = as_shown(every - without)
    is_raised = gain != 0 and as_shown(gain_low) > 0
    leaked = int(run.evaluated[LEAKED_ROWS])
    words = LEAKED_ROW if leaked == 1 else SEVERAL_LEAKED_ROWS
    if is_raised:
        effect = words.raised
    elif gain != 0 and as_shown(gain_high) < 0:
        effect = words.lowered
    else:
        effect = words.unclear
    sentence = (
        f"{leaked:,} of {run.rows:,} rows ({leaked / run.rows:.1%}) {words.leak} a row of an earlier"
        f" split. {title_of(metric.name)} {words.without}: {without:.3f} (95 % interval {low:.3f} to"
        f" {high:.3f}{_clean_texts(run)}). {effect}: {gain:+.3f} (95 % interval {gain_low:+.3f} to {gain_high:+.3f})."
    )
    if not is_raised:
        return Finding("leaks", "note", sentence)
    advice = f"Trust the metric {words.without}; docs/data-checks.md says how to leave them out."
    return Finding("leaks", "warning", sentence, advice)


def _clean_texts(run: RunFacts) -> str:
    """Return how many independent rows are not leaked, in words; empty where all rows are independent."""
    clean = run.without_leaks
    if INDEPENDENT_ROWS not in clean.evaluated or clean.clusters == clean.rows:
        return ""
    return f"; {clean.clusters:,} {clean.unit}"


def _few_rows(run: RunFacts, metric: Metric) -> Finding | None:
    """Return a note if there are too few rows to compare with the best simple model that is not beaten."""
    unbeaten = _unbeaten(run, metric)
    if not unbeaten or run.clusters >= FEW_ROWS:
        return None
    best = unbeaten[0]
    if best.is_worse or best.high == best.low:
        return None

    half_width = (best.high - best.low) / 2
    difference = abs(best.model - best.simple)
    sentence = f"{run.clusters:,} {run.unit} show only differences of more than about {half_width:.3f}."
    # A larger difference is as large as the rows show, and none needs no rows.
    if as_shown(difference) == 0 or as_shown(difference) >= as_shown(half_width):
        return Finding("few rows", "note", sentence)

    # The width of an interval falls with the square root of the rows.
    needed = run.clusters * (half_width / difference) ** 2
    advice = ""
    if needed < 100 * run.clusters:
        number = _rounded(needed)
        advice = f"A difference as small as this one, {difference:.3f}, needs about {number} {run.unit}."
    return Finding("few rows", "note", sentence, advice)


def _rounded(number: float) -> str:
    """Return a number of rows rounded up to two digits: more would pretend to be exact."""
    unit = 10 ** max(0, len(str(int(number))) - 2)
    return f"{math.ceil(number / unit) * unit:,}"


HALVING_COST = 7 / 3
"""Cost of the first sweep, in trainings.

Of nine variants, all train a ninth of the steps, three a third, and one all of them.
"""


def next_steps(run: RunFacts) -> list[tuple[str, str]]:
    """Return commands for next steps, the best first: the command, what it is for, and what it costs.

    They run as printed in a project with this result.

    They are what the findings advise, so none of them contradicts one.
    """
    # rows that cannot tell how good a model is cannot tell if another one is better
    if run.metric is not None and _undecided(run, run.metric):
        return [(REVIEW, "look at the labels that are probably wrong")]

    steps = []
    if not run.is_frozen:
        steps += _training_steps(run)
    elif not run.has_tried_both:
        steps.append((TRY_BOTH, f"fine-tune as well, and publish the better one{_cost(run, 1)}"))
    steps.append((REVIEW, "look at the labels that are probably wrong"))
    return steps


def _training_steps(run: RunFacts) -> list[tuple[str, str]]:
    """Return the next steps after a fine-tuned model, or one that was trained from scratch."""
    steps = []
    unbeaten = set()
    if run.metric is not None:
        unbeaten = {comparison.name for comparison in _unbeaten(run, run.metric)}
    if "frozen" in unbeaten and not run.has_tried_both:
        purpose = "fit a linear model to the frozen checkpoint, too, and publish the better one"
        steps.append((TRY_BOTH, f"{purpose}{_cost(run, 1)}"))

    if _still_improving(run) is not None:
        steps.append((f"{EXPERIMENT} {run.longer}", f"train twice as long{_cost(run, 2)}"))

    # A sweep tries several rates: half the rate is for projects without one.
    rate = run.params.get("train.learning_rate")
    if run.sweep is not None:
        purpose = "compare nine variants of rate and steps"
        steps.append((f"tuneline sweep {run.sweep}", f"{purpose}{_cost(run, HALVING_COST)}"))
    elif rate:
        command = f"{EXPERIMENT} train.learning_rate={rate / 2:.2g}"
        steps.append((command, f"half the learning rate{_cost(run, 1)}"))
    return steps


def _cost(run: RunFacts, trainings: float) -> str:
    if run.seconds is None:
        return ""
    seconds = trainings * run.seconds
    if seconds < 90:
        return f" (about {seconds:.0f} s)"
    return f" (about {seconds / 60:.0f} min)"


def about_errors(confidences: Sequence[float], errors: Sequence[float]) -> str:
    """Return what the most confident errors are, in words.

    Args:
        confidences: Confidence of all predictions.
        errors: Confidence of the wrong predictions.

    They are often wrong labels only where the model is nearly always right: the errors of an unsure model are
    its own mistakes.
    """
    if not errors:
        return ""
    sure = sum(confidence >= CONFIDENT for confidence in confidences)
    wrong = sum(confidence >= CONFIDENT for confidence in errors)
    if not wrong:
        highest = math.floor(100 * max(errors))  # rounded up, it would be one of which the model is sure
        return f"The model is sure of none of them: its highest confidence is {highest}%."

    right = 1 - wrong / sure
    if right >= CONFIDENT:
        reading = "the errors there are often wrong labels"
    else:
        reading = "it is too sure of itself"
    return (
        f"Of {sure:,} predictions with a confidence of at least {CONFIDENT:.0%}, {sure - wrong:,} are right,"
        f" {wrong:,} wrong: {reading}."
    )
