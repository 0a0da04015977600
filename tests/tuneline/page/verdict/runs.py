"""Metrics, parameters and curves of runs, and what the rules find in them."""

from pathlib import Path
from typing import Any

from tuneline.core.repository.dvc import read_lock
from tuneline.page.verdict.facts import RunFacts
from tuneline.page.verdict.rules import Finding, judge_run

BASE = {
    "rows": 1000,
    "accuracy": 0.9,
    "accuracy_low": 0.88,
    "accuracy_high": 0.92,
    "majority_accuracy": 0.3,
    "predicted_classes": 4,
    "accuracy_over_majority_low": 0.55,
    "accuracy_over_majority_high": 0.65,
    "never_predicted_classes": 0,
    "most_predicted_share": 0.3,
}
SCRATCH = {
    "model.checkpoint": None,
    "train.epochs": 3,
    "train.max_steps": None,
    "train.learning_rate": 1e-4,
    "train.keep": "best",
}
FINE_TUNED = SCRATCH | {"model.checkpoint": "models/source/MiniLM"}
FROZEN = FINE_TUNED | {"model.head": "frozen"}
AUTO = FINE_TUNED | {"model.head": "auto"}
FALLING = {"step": (10, 20, 30, 40, 50, 60, 70, 80), "loss": (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)}
IMPROVING = {"step": (100, 200, 300), "loss": (0.6, 0.5, 0.4), "accuracy": (0.7, 0.8, 0.85)}
OVERFIT = {"step": (100, 200, 300), "loss": (0.5, 0.6, 0.8), "accuracy": (0.8, 0.8, 0.8)}


def against(name: str, value: float, low: float, high: float) -> dict[str, float]:
    """Return metrics of a comparison with a simple model."""
    return {f"{name}_accuracy": value, f"accuracy_over_{name}_low": low, f"accuracy_over_{name}_high": high}


BEATEN = BASE | against("tfidf", 0.8, 0.05, 0.15)
UNCLEAR = BEATEN | against("frozen", 0.89, -0.02, 0.04)
ITSELF = against("frozen", 0.9, 0.0, 0.0)

SETS = {
    "rows": 500,
    "macro_f1": 0.7,
    "macro_f1_low": 0.67,
    "macro_f1_high": 0.73,
    "majority_macro_f1": 0.1,
    "macro_f1_over_majority_low": 0.5,
    "macro_f1_over_majority_high": 0.7,
    "tfidf_macro_f1": 0.6,
    "macro_f1_over_tfidf_low": 0.05,
    "macro_f1_over_tfidf_high": 0.15,
    "predicted_classes": 5,
    "never_predicted_classes": 0,
    "most_predicted_share": 0.6,
}
"""Metrics of several labels per row, without a fault."""


def with_thresholds(choose: str, target: float | None = None) -> dict[str, Any]:
    """Return parameters with a rule for thresholds."""
    return SCRATCH | {"train.thresholds": {"choose": choose, "target": target, "at_least_one": False}}


def judged(evaluated: dict[str, Any], params: dict[str, Any] = SCRATCH, **curves: Any) -> dict[str, Finding]:
    """Return the findings by code, in their order."""
    return {finding.code: finding for finding in judge_run(RunFacts(evaluated, params=params, **curves))}


def told_of(root: Path) -> list[Finding]:
    """Return what is said of the run in a project: the words that a page or a command is to show."""
    return judge_run(RunFacts.read(root, read_lock(root).params()))
