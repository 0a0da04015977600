"""Figures of the report as SVG with the page's width, font and light or dark colours."""

from collections.abc import Callable
from pathlib import Path

from markupsafe import Markup

from tuneline.cli.report.figures import evaluation, training
from tuneline.cli.report.headline import Headline
from tuneline.cli.report.predictions import Predictions
from tuneline.cli.report.reading import Columns, numbers, read_columns, read_json
from tuneline.metrics import METRIC_TABLE
from tuneline.paths import METRICS, PLOTS
from tuneline.repo import Lock, PreviousResult

CURVES: dict[str, Callable[[Columns, Columns | None], str]] = {
    "precision_recall": evaluation.precision_recall,
    "roc": evaluation.roc,
    "calibration": evaluation.calibration,
    "scatter": evaluation.scatter,
}
"""Functions that draw ``plots/evaluation/NAME.csv``, by name."""


def draw_figures(root: Path, lock: Lock, headline: Headline | None, predictions: Predictions | None) -> dict[str, Markup]:
    """Return every figure whose data exist, by name. Curves of the previous result are drawn too if DVC's cache has them."""
    previous = headline.previous if headline is not None else None
    figures = {"headline": evaluation.headline(headline)} if headline is not None else {}
    figures |= _draw_training(root, lock, previous) | _draw_evaluation(root, previous) | _draw_predictions(predictions)
    return {name: Markup(svg) for name, svg in figures.items()}  # noqa: S704 - SVG of our own; matplotlib escapes the text in it


def _read_previous(previous: PreviousResult | None, path: Path) -> Columns | None:
    cached = previous.file(path.as_posix()) if previous else None
    return read_columns(cached, path.suffix) if cached else None


def _draw_training(root: Path, lock: Lock, previous: PreviousResult | None) -> dict[str, str]:
    path = PLOTS / "training/loss.tsv"
    if (curve := read_columns(root / path)) is None:
        return {}
    validation = read_columns(root / PLOTS / "training/validation.tsv")
    keeps_best = lock.params().get("train.keep", "best") == "best"
    best_step = numbers(read_json(root / METRICS / "train.json")).get("best_step") if keeps_best else None
    figures = {"loss": training.loss(curve, validation, best_step, _read_previous(previous, path)), "rate": training.learning_rate(curve)}
    if "gradient_norm" in curve:
        figures["norm"] = training.gradient_norm(curve)
    names = [name for name in validation or {} if name in METRIC_TABLE and name != "loss"]
    if validation is not None and names and len(validation["step"]) > 1:
        figures["validation"] = training.validation_metric(validation, names[0])
    return figures


def _draw_evaluation(root: Path, previous: PreviousResult | None) -> dict[str, str]:
    paths = {name: PLOTS / f"evaluation/{name}.csv" for name in CURVES}
    columns = {name: read_columns(root / path) for name, path in paths.items()}  # None for the curves of the other task
    comparable = previous if previous and previous.comparable else None
    return {name: CURVES[name](values, _read_previous(comparable, paths[name])) for name, values in columns.items() if values is not None}


def _draw_predictions(predictions: Predictions | None) -> dict[str, str]:
    if predictions is None or len(predictions.labels) == 0:
        return {}
    if predictions.names is None:
        return {"residuals": evaluation.residuals(predictions)}
    return {"confidence": evaluation.confidence(predictions)}
