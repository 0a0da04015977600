"""Random runs: every rule finds something in one of them."""

import random
from typing import Any

from tuneline.judge.evaluation.keys import (
    SIMPLE_MODELS,
    baseline_key,
    clean_keys,
    interval_keys,
    over_keys,
)
from tuneline.judge.evaluation.table import ALL_METRICS
from tuneline.judge.metrics.table import Metric
from tuneline.onnx.comparison_records import ComparisonRecord, ModelComparison
from tuneline.page.verdict.facts import RunFacts

LOSSES = (
    (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2),
    (0.7, 0.6, 0.5, 0.5, 0.7, 0.8, 0.9, 1.1),
    (0.69, 0.7, 0.69, 0.7, 0.69, 0.7, 0.69, 0.7),
)
PARAMS = {
    "model.checkpoint": (None, "MiniLM", "MiniLM"),
    "model.head": ("auto", "frozen", None),
    "train.epochs": (None, 1, 3),
    "train.max_steps": (None, None, 300),
    "train.learning_rate": (None, 1e-4),
    "train.keep": ("best", "last"),
    "train.class_weights": (None, "balanced"),
    "data.split": (None, {"by": "customer"}),
}
OF_SETS = {
    "labels_per_row": (1.5,),
    "predicted_labels_per_row": (0.5, 1.6, 4.0),
    "micro_f1": (0.38, 0.7),
    "tfidf_micro_f1": (0.7,),
    "subset_accuracy": (0.05, 0.5),
    "majority_subset_accuracy": (0.1,),
}


def random_run(generator: random.Random) -> RunFacts:
    """Return a run, most of which has some fault."""
    choice = generator.choice
    params: dict[str, Any] = {name: choice(values) for name, values in PARAMS.items()}
    params["train.thresholds"] = {"choose": choice(("f1", "half", "precision", "recall")), "target": 0.9}
    steps = (100, 200, 300)
    losses = choice(LOSSES)
    validation = {
        "step": steps,
        "loss": [choice((0.4, 0.5, 0.6, 0.8)) for _ in steps],
        "accuracy": [choice((0.6, 0.7, 0.8)) for _ in steps],
    }
    training = {
        "steps": 300,
        "best_step": choice(steps),
        "frozen_calibrated_loss": 0.5,
        "tuned_calibrated_loss": choice((0.4, 0.6)),
        "head_is_frozen": choice((0, 1)),
        "head_by_metric": choice((0, 1)),
    }
    return RunFacts(
        _metrics(generator),
        training=training,
        params=params,
        validation=choice(({}, validation)),
        losses=choice(({}, {"step": range(len(losses)), "loss": losses})),
        compared=choice((None, _comparison(generator))),
        word_pieces=choice(("", "", "3.1 pieces per word")),
    )


def _metrics(generator: random.Random) -> dict[str, float]:
    choice = generator.choice
    metric = ALL_METRICS[choice(("accuracy", "macro_f1", "pearson"))]
    value = choice((1.0, 0.7, 0.1))
    rows = choice((50, 1000, 20_000))
    low, high = interval_keys(metric)
    metrics = {
        "rows": rows,
        "clusters": choice((rows, rows, rows // 2, 3)),
        metric.name: value,
        low: value - 0.02,
        high: value + 0.02,
        "majority_accuracy": choice((0.3, 0.9)),
        "predicted_classes": choice((0, 3)),
        "never_predicted_classes": choice((0, 0, 2)),
        "most_predicted_share": choice((0.3, 0.3, 0.3, 1)),
    }
    metrics |= _simple_models(generator, metric, value, "")
    if metric.name == "macro_f1":
        metrics |= {name: choice(values) for name, values in OF_SETS.items()}
    metrics["leaked_rows"] = choice((0, 0, 0, 1, rows // 5, rows * 2 // 3, rows))
    if 0 < metrics["leaked_rows"] < rows:
        clean = value + choice((-0.2, 0.0, 0.1))
        metrics |= dict(zip(clean_keys(metric), (clean, clean - 0.1, clean + 0.1), strict=True))
        metrics |= _simple_models(generator, metric, clean, "_without_leaks")
    return metrics


def _simple_models(generator: random.Random, metric: Metric, value: float, suffix: str) -> dict[str, float]:
    metrics = {}
    for name in SIMPLE_MODELS:
        difference = generator.choice((0.3, 0.3, 0.3, 0.01, -0.1))
        low, high = over_keys(metric, name)
        metrics[f"{baseline_key(metric, name)}{suffix}"] = value - difference
        metrics[f"{low}{suffix}"] = difference - 0.05
        metrics[f"{high}{suffix}"] = difference + 0.05
    return metrics


def _comparison(generator: random.Random) -> ComparisonRecord:
    models = {}
    for precision in ("fp32", "int8"):
        violations = generator.choice(([], [], ["agreement is 0.9", "the drop is 0.2"]))
        models[precision] = ModelComparison(
            max_abs_diff=0.1,
            agreement=0.9,
            flips=2,
            accuracy=0.8,
            accuracy_drop=0.1,
            violations=violations,
            unclear=generator.choice(([], ["agreement is unclear"])),
            required=precision == "fp32",
            published=not violations,
        )
    return ComparisonRecord(
        split="test", rows=20, metric="accuracy", predictions="-", trained={"accuracy": 0.9}, models=models
    )
