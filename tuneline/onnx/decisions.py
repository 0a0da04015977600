"""What an exported model does with its probabilities, and the rows that show how often it is right."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.core.params.evaluate import CostParams
from tuneline.core.paths import FAILING_ROWS, TOKENIZED
from tuneline.core.runtime.terminal import say
from tuneline.core.stage.records import NUMBER_DIGITS, rounded_up
from tuneline.core.stage.tables import SplitReader
from tuneline.judge.decisions.evidence import NO_CLASS, Evidence, JudgedAnswers, independent_sample
from tuneline.judge.decisions.rule import CostRule, answers_of
from tuneline.judge.evaluation.scoring import leaked_rows
from tuneline.judge.metrics.predictions import Predictions, clusters_of_split
from tuneline.judge.metrics.stats import mean_estimate
from tuneline.judge.metrics.temperature import calibrated, spaced_rows
from tuneline.model.tasks import Classification, Task
from tuneline.model.tasks.task import INTERVAL_LEVEL, Labels
from tuneline.model.tokens.batches import TokenizedRows
from tuneline.model.tokens.tokenized_splits import TokenizedSplit
from tuneline.onnx.usage import CostRecord


def fitting_rows() -> tuple[TokenizedRows, Labels, NDArray[Any] | None]:
    """Read the rows of validation that have a label, to which the temperature of each model is fitted.

    They are ``MOST_ROWS`` at most.

    Returns:
        The tokenized rows; their labels; and the cluster of each, ``None`` if each row is on its own.
    """
    split = TokenizedSplit.read(SplitReader.open(TOKENIZED, "validation", "tokenize"))
    clusters = clusters_of_split("validation", len(split))
    chosen = spaced_rows(np.flatnonzero(split.task.valid(split.labels)))
    if clusters is not None:
        clusters = clusters[chosen]
    return split.take(chosen), split.labels[chosen], clusters


@dataclass(frozen=True)
class ModelDecisions:
    """What one exported model does with its outputs.

    Attributes:
        task: The task with the temperature or the interval of this model.
        costs: What errors cost, if that decides about answers.
        evidence: Answers to rows that promise and to rows of validation; ``None`` of numbers, or if no row
            can promise.
        metrics: What answers have cost on the reported rows.
    """

    task: Task
    costs: CostRecord | None
    evidence: Evidence | None
    metrics: Mapping[str, float]

    @property
    def record(self) -> Mapping[str, Any] | None:
        """The decisions of the task; a temperature of 1, too, because the trained model may have another."""
        if isinstance(self.task, Classification):
            return {"temperature": self.task.temperature}
        return self.task.decisions or None

    @classmethod
    def of(
        cls,
        costs: CostRecord | None,
        validation: Predictions,
        reported: Predictions,
        new: NDArray[np.bool_] | None,
    ) -> "ModelDecisions":
        """Return the decisions of a model.

        Args:
            costs: What errors cost, as ``cost_record`` returns it.
            validation: What it predicts for validation, which fits the temperature, by the task of the
                trained model; finite.
            reported: What it predicts for the reported rows; finite.
            new: Which reported rows show how the model does on new rows, ``(rows,)``; ``None``: the reported
                split has chosen something of the model, and none does.
        """
        task = reported.task
        if not task.has_classes:
            if new is not None:
                task = _with_interval(task, reported.take(new))
            return cls(task, None, None, {})
        task = calibrated(validation)
        validation = replace(validation, task=task)
        reported = replace(reported, task=task)
        warn_of_costs(costs, validation)
        evidence = None
        if new is not None:
            promising = judged_answers(costs, reported.take(new))
            evidence = Evidence(promising, judged_answers(costs, validation))
        return cls(task, costs, evidence, cost_metrics(costs, reported))


def _with_interval(task: Task, reported: Predictions) -> Task:
    """Return the task with the interval that independent reported rows show."""
    rows = independent_sample(reported.clusters, len(reported))
    width = half_width(reported.values[rows], reported.labels[rows])
    if width is None:
        return task
    return task.with_decisions({"interval": {"half_width": rounded_up(width, NUMBER_DIGITS)}})


def half_width(predictions: NDArray[Any], labels: NDArray[Any]) -> float | None:
    """Return half the width of the interval; ``None`` if there are too few rows for the level.

    A new row is within it with a probability of at least ``INTERVAL_LEVEL``: split conformal prediction (Lei
    et al. 2018, "Distribution-Free Predictive Inference for Regression", algorithm 2).

    Args:
        predictions: Predicted numbers of independent rows, ``(rows,)``.
        labels: Their labels.
    """
    errors = np.sort(np.abs(predictions.astype(np.float64) - labels))
    rank = math.ceil((len(errors) + 1) * INTERVAL_LEVEL)
    if rank > len(errors):
        return None
    return float(errors[rank - 1])


def judged_answers(costs: CostRecord | None, predictions: Predictions) -> JudgedAnswers:
    """Return the answers of a model to independent rows of a split, those that the costs let it answer."""
    task = predictions.task
    rows = independent_sample(predictions.clusters, len(predictions))
    labels = predictions.labels[rows]
    answers = answers_of(task, task.scores(predictions.logits[rows]), cost_rule(costs, task))
    right = ~task.errors(answers.labels, labels)
    classes = np.full(len(rows), NO_CLASS)
    if task.one_class:
        classes = answers.labels
    judged = JudgedAnswers(classes.astype(np.int32), answers.confidence, right)
    return judged.take(~answers.too_dear)


def new_rows(split: str, rows: int) -> NDArray[np.bool_] | None:
    """Return which rows of the reported split are new to the models, shape ``(rows,)``.

    Rows that repeat or resemble a row of train or validation are not. ``None``: the split is one of these.
    """
    if split != "test":
        return None
    if not FAILING_ROWS.exists():  # the data checks have not run here
        return np.ones(rows, bool)
    return ~leaked_rows(FAILING_ROWS, split, rows)


# What errors cost.


def cost_rule(record: CostRecord | None, task: Task) -> CostRule | None:
    """Return the rule of a record, if there is one."""
    if record is None:
        return None
    return CostRule.of(record.errors, record.abstain, task.class_names)


def cost_record(params: CostParams | None, task: Task) -> CostRecord | None:
    """Return what errors cost, by class name."""
    if params is None:
        return None
    errors: dict[str, Mapping[str, float]] = {}
    for right in task.class_names:
        named_costs = params.of.get(right, {})
        costs = {}
        for answer in task.class_names:
            if answer != right:
                costs[answer] = named_costs.get(answer, params.error)
        errors[right] = costs
    return CostRecord(errors=errors, abstain=params.abstain)


def warn_of_costs(record: CostRecord | None, validation: Predictions) -> None:
    """Print a warning if answers that heed the costs have cost more on validation than the plain ones."""
    rule = cost_rule(record, validation.task)
    if rule is None or not len(validation):
        return
    scores = validation.task.scores(validation.logits)
    heeded = float(rule.costs(scores, validation.labels).mean())
    plain = float(rule.plain_costs(scores, validation.labels).mean())
    if heeded > plain:
        say(
            f"compare: WARNING: decide.costs: on validation, answers that heed the costs cost {heeded:.4g}"
            f" per row, and the most probable class {plain:.4g}."
        )


def cost_metrics(record: CostRecord | None, reported: Predictions) -> dict[str, float]:
    """Return what the answers of a model have cost per reported row, beside the most probable class."""
    rule = cost_rule(record, reported.task)
    if rule is None or not len(reported):
        return {}
    scores = reported.task.scores(reported.logits)
    heeded = rule.costs(scores, reported.labels)
    plain = rule.plain_costs(scores, reported.labels)
    saved = mean_estimate(plain - heeded, reported.clusters)
    return {
        "cost": float(heeded.mean()),
        "plain_cost": float(plain.mean()),
        "saved_cost_low": saved.low,
        "saved_cost_high": saved.high,
        "abstained": float(rule.abstains(scores).mean()),
    }
