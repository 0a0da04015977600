"""The verdict on a trained model: what a careful colleague would say, and what to do, from the metrics and curves of its run.

It is a function of numbers: ``tuneline show``, the page, the model card and ``tuneline evaluate`` all print
this one.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Self, get_args

from tuneline.core.paths import FIRST_SWEEP, METRICS, PLOTS, TIMING
from tuneline.core.records import Metrics, Timing
from tuneline.metrics.table import (
    LEAKED_ROWS,
    MAJORITY,
    MOST_PREDICTED,
    NEVER_PREDICTED,
    PREDICTED_CLASSES,
    SIMPLE_MODELS,
    Metric,
    MetricKind,
    primary_metric,
)
from tuneline.onnx.records import ComparisonRecord
from tuneline.results import exported
from tuneline.results.findings import Finding

Curve = Mapping[str, Sequence[float]]
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
"""Least relative fall of the validation loss since the evaluation before the last one that calls for more steps.

A schedule that ends at a learning rate of 0 lowers the last loss also where the model has learned what it
can. On the sample, after falls of 5 and 3 % (seeds 42 and 2), training twice as long gave a test accuracy of
0.956 and 0.949 instead of 0.957 and 0.956.
"""
FEW_ROWS = 2_000
"""Rows of the reported split below which more of them could decide an unclear comparison."""
AS_GOOD = 0.03
"""Largest fall of the validation metric after its best evaluation that few rows show by chance."""
UNBALANCED = 0.8
"""Majority accuracy from which class weights are worth a try."""
CONFIDENT = 0.9
"""Confidence of an error from which its label may be the mistake, if the model is right this often where it is as confident."""


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
    validation: Curve = field(default_factory=dict)
    losses: Curve = field(default_factory=dict)
    compared: ComparisonRecord | None = None
    seconds: float | None = None
    sweep: Path | None = None

    @classmethod
    def read(cls, root: Path, params: Mapping[str, Any]) -> Self:
        """Read metrics and curves of a project; what is missing or invalid is empty."""
        evaluated, training = (
            Metrics.read_values(root / METRICS / f"{stage}.json") for stage in ("evaluate", "train")
        )
        curves = root / PLOTS / "training"
        validation, losses = read_curve(curves / "validation.tsv"), read_curve(curves / "loss.tsv")
        timing = Timing.read_if_valid(root / TIMING / "train.json")
        return cls(
            evaluated,
            training,
            params,
            validation,
            losses,
            exported.read_comparison(root),
            seconds=timing.values.get("seconds") if timing else None,
            sweep=FIRST_SWEEP if (root / FIRST_SWEEP).exists() else None,
        )

    @property
    def metric(self) -> Metric | None:
        """The primary metric of the task; ``None`` if the run has none."""
        return next((metric for metric in PRIMARY_METRICS if metric.name in self.evaluated), None)

    @property
    def rows(self) -> int:
        """Rows of the reported split."""
        return int(self.evaluated.get("rows", 0))

    @property
    def is_fine_tuned(self) -> bool:
        """True if the training began with a pretrained checkpoint."""
        return self.params.get("model.checkpoint") is not None

    @property
    def is_frozen(self) -> bool:
        """True if the model is a linear one on the frozen checkpoint: the user chose it, or validation did."""
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
        if steps := self.params.get("train.max_steps"):
            return f"train.max_steps={2 * steps}"
        return f"train.epochs={2 * (self.params.get('train.epochs') or 1)}"


def is_frozen(params: Mapping[str, Any], training: Mapping[str, float]) -> bool:
    """Return True if a run published a linear model on the frozen checkpoint, given its parameters and ``metrics/train.json``."""
    head = params.get("model.head")
    return head == "frozen" or (head == "auto" and training.get("head_is_frozen") == 1)


def read_curve(path: Path, suffix: str | None = None) -> Curve:
    """Return the columns of a CSV or TSV file of numbers; empty if it is missing, invalid or has no rows.

    An empty cell is NaN.

    A file in DVC's cache has no ``suffix`` of its own. No numpy here: ``tuneline show`` starts without it.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file, delimiter="\t" if (suffix or path.suffix) == ".tsv" else ",")
        columns = zip(*([float(cell or "nan") for cell in row] for row in rows), strict=True)
        return dict(zip(header, columns, strict=True)) if rows else {}
    except (OSError, ValueError):
        return {}


def judge_run(run: RunFacts) -> list[Finding]:
    """Return the findings, the most important first; the first one says how the model compares with the simple models.

    Without metrics there is no finding.
    """
    metric = run.metric
    if metric is None:
        return []
    against = _collapsed(run, metric) or _against_simple_models(run, metric)
    of_training = () if run.is_frozen else (_diverged(run), _still_improving(run), _overfitting(run))
    others = (
        _chosen_head(run),
        _never_predicted(run),
        *of_training,
        leak_finding(run),
        _few_rows(run, metric),
    )
    rounded = exported.findings(run.compared) if run.compared else ()
    return [*against, *(finding for finding in others if finding is not None), *rounded]


def _collapsed(run: RunFacts, metric: Metric) -> list[Finding]:
    if (
        run.evaluated.get(PREDICTED_CLASSES) != 1
        or NEVER_PREDICTED not in run.evaluated
        or not run.evaluated[NEVER_PREDICTED]
    ):
        return []
    majority = run.evaluated.get(str(metric.baseline), 0.0)
    sentence = (
        f"The model predicts the same class for all {run.rows:,} rows: it has learned nothing from the texts "
        f"({metric.title} {run.evaluated[metric.name]:.3f}, the majority baseline {majority:.3f})."
    )
    if run.is_frozen:
        return [Finding("one class", "bad", sentence, _learn_more(run))]
    weights = (
        " Or try train.class_weights=balanced."
        if majority > UNBALANCED and not run.params.get("train.class_weights")
        else ""
    )
    rate = run.params.get("train.learning_rate")
    lower = f"with a lower learning rate (it was {rate:g})" if rate else "with a lower learning rate"
    remedy = f"Train {lower}." if run.overfits else f"Train longer ({run.longer}) or {lower}."
    return [Finding("one class", "bad", sentence, f"{remedy}{weights}")]


@dataclass(frozen=True)
class Comparison:
    """The primary metric of the trained model and of a simple one, and the 95 % interval of ``model - simple`` on the same rows."""

    name: str
    model: float
    simple: float
    low: float
    high: float

    @property
    def title(self) -> str:
        """Name of the simple model for people."""
        return SIMPLE_MODELS[self.name]

    @property
    def beaten(self) -> bool:
        """True if the trained model is better, and the difference is not chance."""
        return self.low > 0

    @property
    def numbers(self) -> str:
        """Both values and the interval, in words."""
        return (
            f"{self.model:.3f} against {self.simple:.3f}, 95 % interval of the difference {self.low:+.3f} to"
            f" {self.high:+.3f}"
        )


def rivals(frozen: bool) -> dict[str, str]:
    """Return those of ``SIMPLE_MODELS`` that a model must beat: a ``frozen`` one, linear on the checkpoint, is not compared with itself."""
    return {name: title for name, title in SIMPLE_MODELS.items() if not (frozen and name == "frozen")}


def comparisons(run: RunFacts, metric: Metric) -> list[Comparison]:
    """Return the comparisons with the ``rivals`` that ``metrics/evaluate.json`` has, the best simple model first."""
    found = []
    for name in rivals(run.is_frozen):
        keys = (metric.name, metric.of_baseline(name), *metric.over(name))
        if all(key in run.evaluated for key in keys):
            found.append(Comparison(name, *(run.evaluated[str(key)] for key in keys)))
    return sorted(found, key=lambda comparison: -comparison.simple)


def _against_simple_models(run: RunFacts, metric: Metric) -> list[Finding]:
    known = comparisons(run, metric)
    uninformed = _uninformed(run, metric) or next(
        (comparison for comparison in known if comparison.name == MAJORITY and not comparison.beaten), None
    )
    if uninformed is not None:
        values = uninformed if isinstance(uninformed, str) else f"{uninformed.title}: {uninformed.numbers}"
        clearly = "" if not isinstance(uninformed, str) and uninformed.high < 0 else "clearly "
        sentence = f"{metric.title} is not {clearly}above {values}."
        return [Finding("not above the majority", "bad", sentence, _learn_more(run))]
    unbeaten = [comparison for comparison in known if not comparison.beaten]
    if unbeaten:
        best, *others = unbeaten
        verb = "is worse than" if best.high < 0 else "is not clearly better than"
        also = (
            f" Nor is it better than {' and '.join(comparison.title for comparison in others)}."
            if others
            else ""
        )
        sentence = f"The model {verb} {best.title}: {metric.title} {best.numbers}.{also}"
        return [Finding("not above a simple model", "bad", sentence, _instead(run, best))]
    return [Finding("good", "good", _praise(run, metric, known))] if known else []


def _uninformed(run: RunFacts, metric: Metric) -> str:
    """Return what a metric is not above whose uninformed value is known by convention; empty for another metric, or if it is above."""
    low, high = (run.evaluated.get(key) for key in metric.ends)
    if metric.uninformed is None or low is None or low > metric.uninformed:
        return ""
    value = run.evaluated[metric.name]
    return (
        f"{metric.uninformed:g}, that of predictions without the text: {value:.3f}, 95 % interval {low:.3f}"
        f" to {high:.3f}"
    )


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
    start = (
        ""
        if run.is_fine_tuned
        else "Fine-tune a pretrained checkpoint (tuneline init FILE --checkpoint NAME). "
    )
    return f"{start}Train longer ({run.longer}), and {look}."


def _instead(run: RunFacts, best: Comparison) -> str:
    """Return what to do about a simple model that is not beaten."""
    how = f" ({EXPERIMENT} model.head=frozen)" if best.name == "frozen" else ""
    if best.high < 0:
        return f"Use {best.title}{how}, " + (
            "or get more data." if run.is_fine_tuned else "or fine-tune a pretrained checkpoint."
        )
    if not run.is_fine_tuned:
        return (
            "Fine-tune a pretrained checkpoint (tuneline init FILE --checkpoint NAME), get more data, or use"
            " the simpler model."
        )
    if run.is_frozen:
        tried = f"Fine-tuning was tried, too, and was no better: get more data, {LARGER}"
        first = tried if run.has_tried_both else f"Fine-tune as well ({TRY_BOTH}), get more data"
        return f"{first}, or use the simpler model."
    if best.name != "frozen":
        return f"Get more data, {LARGER}, or use the simpler model."
    if run.has_tried_both:
        return f"Validation has chosen this one of the two: get more data, or {LARGER}."
    return f"Let validation decide between the two ({TRY_BOTH}), or use the simpler model{how}."


def _praise(run: RunFacts, metric: Metric, known: Sequence[Comparison]) -> str:
    value, (low, high) = run.evaluated[metric.name], (run.evaluated.get(key) for key in metric.ends)
    interval = f" (95 % interval {low:.3f} to {high:.3f})" if low is not None else ""
    best = known[0]
    several = ", the best of the simple models" if len(known) > 1 else ""
    difference = f"{best.simple:.3f}, difference {best.low:+.3f} to {best.high:+.3f}"
    return (
        f"Good: {metric.title} {value:.3f}{interval} on {run.rows:,} rows, clearly above"
        f" {best.title}{several} ({difference})."
    )


def _never_predicted(run: RunFacts) -> Finding | None:
    never, share = int(run.evaluated.get(NEVER_PREDICTED, 0)), run.evaluated.get(MOST_PREDICTED, 0.0)
    predicted = int(run.evaluated.get(PREDICTED_CLASSES, 0))
    if not never or predicted == 1:
        return None
    verb = "is" if never == 1 else "are"
    sentence = (
        f"{never} of {never + predicted} classes {verb} never predicted; {share:.0%} of the rows get the same"
        " class."
    )
    weights = (
        ""
        if run.params.get("train.class_weights") or run.is_frozen
        else ", try train.class_weights=balanced,"
    )
    return Finding(
        "never predicted",
        "warning",
        sentence,
        f"Get more rows of the classes without predictions{weights} or join rare ones.",
    )


def _chosen_head(run: RunFacts) -> Finding | None:
    """Return a note about the model that ``model.head: auto`` has chosen."""
    frozen, tuned = (run.training.get(f"{name}_calibrated_loss") for name in ("frozen", "tuned"))
    if run.params.get("model.head") != "auto" or frozen is None or tuned is None:
        return None
    numbers = (
        f"loss {frozen:.3f} with the linear model on the frozen checkpoint, {tuned:.3f} with the"
        " fine-tuned one"
    )
    chosen = "the linear one" if run.is_frozen else "the fine-tuned one"
    is_worse = frozen > tuned if run.is_frozen else tuned > frozen
    reason = ", which is no clear difference; it is the safer one" if is_worse else ""
    return Finding("chosen head", "note", f"Validation has chosen {chosen}: {numbers}{reason}.")


def _diverged(run: RunFacts) -> Finding | None:
    losses, steps = run.losses.get("loss", ()), run.losses.get("step", ())
    if len(losses) < 4:
        return None
    rate = run.params.get("train.learning_rate")
    advice = (
        f"Lower the learning rate (train.learning_rate={rate / 3:.1g})."
        if rate
        else "Lower the learning rate."
    )
    if not all(map(math.isfinite, losses)):
        step = next(step for step, loss in zip(steps, losses, strict=True) if not math.isfinite(loss))
        return Finding(
            "diverged", "bad", f"The training loss is not a finite number at step {step:.0f}.", advice
        )
    quarter = len(losses) // 4
    means = [fmean(losses[start : start + quarter]) for start in range(0, len(losses) - quarter + 1, quarter)]
    first, lowest, last = means[0], min(means), means[-1]
    if last > lowest * (1 + OVERFIT) and last > first * (1 - CLEAR_LOSS):
        return Finding(
            "diverged", "bad", f"The training loss rises: from {lowest:.3f} to {last:.3f} at the end.", advice
        )
    if last > first * (1 - CLEAR_LOSS):
        return Finding(
            "diverged",
            "warning",
            f"The training loss does not fall: {first:.3f} at first, {last:.3f} at the end.",
            advice,
        )
    return None


def _still_improving(run: RunFacts) -> Finding | None:
    name, metric = _validated(run)
    losses, steps = run.validation.get("loss", ()), run.validation.get("step", ())
    if len(steps) < 2 or metric[-1] <= max(metric[:-1]) or losses[-1] > min(losses[:-1]) * (1 - STILL_FALLS):
        return None
    sentence = (
        f"Validation was still improving at the last step: {name} {metric[-2]:.3f} to {metric[-1]:.3f}, "
        f"loss {losses[-2]:.3f} to {losses[-1]:.3f} since step {steps[-2]:.0f}."
    )
    return Finding("still improving", "warning", sentence, f"Train longer: {run.longer}.")


def _validated(run: RunFacts) -> tuple[str, Sequence[float]]:
    """Return the name and values of the metric that chooses the kept weights, where more is better; of the loss with its sign."""
    name = next((name for name in run.validation if name not in ("step", "loss")), "loss")
    values = run.validation.get(name, ())
    lower = name in ("loss", "mse")
    return name, [-value for value in values] if lower else values


def _overfitting(run: RunFacts) -> Finding | None:
    losses, steps = run.validation.get("loss", ()), run.validation.get("step", ())
    trained = run.losses.get("loss", ())
    if (
        len(losses) < 2
        or len(trained) < 2
        or losses[-1] <= min(losses) * (1 + OVERFIT)
        or trained[-1] >= trained[0]
    ):
        return None
    best = list(losses).index(min(losses))
    epochs, steps_of_all, until = (
        run.params.get(f"train.{key}") for key in ("epochs", "max_steps", "early_stopping")
    )
    epoch = run.training.get("steps", 0) / epochs if epochs and not steps_of_all and until is None else None
    since = f"epoch {steps[best] / epoch:.2g}" if epoch else f"step {steps[best]:.0f}"
    rise = f"the validation loss rises from {losses[best]:.3f} to {losses[-1]:.3f}, the training loss falls"
    sentence = f"The model overfits since {since}: {rise}."
    if run.params.get("train.keep", "best") != "best":
        name, metric = _validated(run)
        if metric[-1] >= max(metric) - AS_GOOD:
            return Finding(
                "overfitting",
                "note",
                sentence,
                f"Its {name} is as good as before, its confidence is too high: do not trust that.",
            )
        return Finding("overfitting", "warning", sentence, "Set train.keep=best.")
    late = run.training.get("best_step", steps[best]) > steps[best]
    kept = (
        "The weights that were kept are of a later step: do not trust their confidence."
        if late
        else "The weights before that were kept."
    )
    fewer = (
        f" train.epochs={max(1, math.ceil(steps[best] / epoch))} takes less time."
        if epoch and not late
        else ""
    )
    return Finding("overfitting", "warning" if late else "note", sentence, f"{kept}{fewer}")


def leak_finding(run: RunFacts) -> Finding | None:
    """Return the primary metric without the rows that repeat or resemble a row of an earlier split, and whether these raise it.

    ``None`` if there is no leaked row, or no other row.
    """
    metric, evaluated = run.metric, run.evaluated
    keys = (metric.name, *metric.without_leaks, *metric.from_leaks) if metric else ()
    if metric is None or not all(key in evaluated for key in keys):
        return None
    every, without, low, high, gain_low, gain_high = (
        evaluated[key] for key in keys
    )  # the gain is ``every - without``
    leaked, misleads = int(evaluated[LEAKED_ROWS]), gain_low > 0
    effect = "raise it" if misleads else "lower it" if gain_high < 0 else "do not clearly change it"
    sentence = (
        f"{leaked:,} of {run.rows:,} rows ({leaked / run.rows:.1%}) repeat or resemble a row of an earlier"
        f" split. {metric.title} without them: {without:.3f} (95 % interval {low:.3f} to {high:.3f}). They"
        f" {effect}: {every - without:+.3f} (95 % interval {gain_low:+.3f} to {gain_high:+.3f})."
    )
    if not misleads:
        return Finding("leaks", "note", sentence)
    return Finding(
        "leaks",
        "warning",
        sentence,
        "Trust the metric without them; docs/data-checks.md says how to leave them out.",
    )


def _few_rows(run: RunFacts, metric: Metric) -> Finding | None:
    """Return a note if the comparison with the best simple model that is not beaten is unclear, and there are few rows."""
    unbeaten = next((comparison for comparison in comparisons(run, metric) if not comparison.beaten), None)
    if unbeaten is None or unbeaten.high < 0 or unbeaten.high == unbeaten.low or run.rows >= FEW_ROWS:
        return None
    half, difference = (unbeaten.high - unbeaten.low) / 2, abs(unbeaten.model - unbeaten.simple)
    needed = run.rows * (half / difference) ** 2 if difference else math.inf
    more = (
        f"A difference as small as this one, {difference:.3f}, needs about {_rounded(needed)} rows."
        if needed < 100 * run.rows
        else ""
    )
    sentence = f"{run.rows:,} rows show only differences of more than about {half:.3f}."
    return Finding("few rows", "note", sentence, more)


def _rounded(number: float) -> str:
    digits = 10 ** max(0, len(str(int(number))) - 2)
    return f"{math.ceil(number / digits) * digits:,}"


HALVING_COST = 7 / 3
"""Trainings that the first sweep takes: of nine variants, all train a ninth of the steps, three a third, and one all of them."""


def next_steps(run: RunFacts) -> list[tuple[str, str]]:
    """Return commands that run as printed in a project with this result, what each is for and what it costs; the best first.

    They are what the findings advise, so none of them contradicts one.
    """
    if run.is_frozen:
        steps = (
            []
            if run.has_tried_both
            else [(TRY_BOTH, f"fine-tune as well, and publish the better one{_cost(run, 1)}")]
        )
    else:
        steps = _training_steps(run)
    return [*steps, (REVIEW, "look at the labels that are probably wrong")]


def _training_steps(run: RunFacts) -> list[tuple[str, str]]:
    """Return the next steps after a fine-tuned model, or one that was trained from scratch."""
    steps, metric = [], run.metric
    unbeaten = (
        [comparison.name for comparison in comparisons(run, metric) if not comparison.beaten]
        if metric
        else []
    )
    if "frozen" in unbeaten and not run.has_tried_both:
        steps.append(
            (
                TRY_BOTH,
                (
                    "fit a linear model to the frozen checkpoint, too, and publish the better"
                    f" one{_cost(run, 1)}"
                ),
            )
        )
    if _still_improving(run) is not None:
        steps.append((f"{EXPERIMENT} {run.longer}", f"train twice as long{_cost(run, 2)}"))
    if run.sweep is not None:
        steps.append(
            (
                f"tuneline sweep {run.sweep}",
                f"compare nine variants of rate and steps{_cost(run, HALVING_COST)}",
            )
        )
    elif rate := run.params.get("train.learning_rate"):
        steps.append(
            (f"{EXPERIMENT} train.learning_rate={rate / 2:.2g}", f"half the learning rate{_cost(run, 1)}")
        )
    return steps


def _cost(run: RunFacts, trainings: float) -> str:
    if run.seconds is None:
        return ""
    seconds = trainings * run.seconds
    return f" (about {seconds:.0f} s)" if seconds < 90 else f" (about {seconds / 60:.0f} min)"


def about_errors(confidences: Sequence[float], errors: Sequence[float]) -> str:
    """Return what the most confident errors are, from the confidence of all predictions and of the wrong ones.

    They are often wrong labels only where the model is nearly always right: those of an unsure model are its
    own mistakes.
    """
    if not errors:
        return ""
    sure, wrong = (sum(one >= CONFIDENT for one in values) for values in (confidences, errors))
    if wrong:
        right = 1 - wrong / sure
        labels = (
            "the errors there are often wrong labels" if right >= CONFIDENT else "it is too sure of itself"
        )
        return (
            f"Of {sure:,} predictions with a confidence of at least {CONFIDENT:.0%}, {right:.0%} are right,"
            f" {wrong:,} wrong: {labels}."
        )
    return f"The model is sure of none of them: its highest confidence is {max(errors):.0%}."
