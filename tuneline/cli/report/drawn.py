"""Draws every figure that there are numbers for."""

from collections.abc import Callable
from pathlib import Path

from markupsafe import Markup

from tuneline.cli.report.figures import evaluation, training
from tuneline.cli.report.figures.headline import against
from tuneline.cli.report.headline import Headline
from tuneline.cli.report.reading import Columns, Predictions, numbers, read_columns, read_json
from tuneline.metrics import METRIC_TABLE
from tuneline.paths import METRICS, PLOTS
from tuneline.repo.earlier import Earlier
from tuneline.repo.history import Lock

CURVES: dict[str, Callable[[Columns, Columns | None], str]] = {
    "precision_recall": evaluation.precision_recall,
    "roc": evaluation.roc,
    "calibration": evaluation.calibration,
    "scatter": evaluation.scatter,
}


def drawn(root: Path, lock: Lock, top: Headline | None, predictions: Predictions | None) -> dict[str, Markup]:
    """SVG by name. Curves of the earlier commit stand behind those of now, where DVC's cache still has them."""
    earlier = top.earlier if top is not None else None
    found = {"headline": against(top)} if top is not None else {}
    found |= of_training(root, lock, earlier) | of_evaluation(root, earlier) | of_predictions(predictions)
    return {name: Markup(svg) for name, svg in found.items()}  # noqa: S704 - SVG of our own; matplotlib escapes the text in it


def before(earlier: Earlier | None, path: Path) -> Columns | None:
    """The same file of the earlier commit."""
    cached = earlier.file(path.as_posix()) if earlier else None
    return read_columns(cached, path.suffix) if cached else None


def of_training(root: Path, lock: Lock, earlier: Earlier | None) -> dict[str, str]:
    """Curves of the training."""
    logged = PLOTS / "training/loss.tsv"
    if (curve := read_columns(root / logged)) is None:
        return {}
    validation = read_columns(root / PLOTS / "training/validation.tsv")
    keeps_best = lock.params().get("train.keep", "best") == "best"
    best_step = numbers(read_json(root / METRICS / "train.json")).get("best_step") if keeps_best else None
    found = {"loss": training.loss(curve, validation, best_step, before(earlier, logged)), "rate": training.learning_rate(curve)}
    if "gradient_norm" in curve:
        found["norm"] = training.gradient_norm(curve)
    names = [name for name in validation or {} if name in METRIC_TABLE and name != "loss"]
    if validation is not None and names and len(validation["step"]) > 1:
        found["validation"] = training.validation_metric(validation, names[0])
    return found


def of_evaluation(root: Path, earlier: Earlier | None) -> dict[str, str]:
    """Curves of the reported split. Those of the other task have no rows."""
    paths = {name: PLOTS / f"evaluation/{name}.csv" for name in CURVES}
    columns = {name: read_columns(root / path) for name, path in paths.items()}
    comparable = earlier if earlier and earlier.comparable else None
    return {name: CURVES[name](values, before(comparable, paths[name])) for name, values in columns.items() if values is not None}


def of_predictions(predictions: Predictions | None) -> dict[str, str]:
    """How sure the model is, or how far off."""
    if predictions is None or len(predictions.labels) == 0:
        return {}
    if predictions.names is None:
        return {"residuals": evaluation.residuals(predictions)}
    return {"confidence": evaluation.confidence(predictions)}
