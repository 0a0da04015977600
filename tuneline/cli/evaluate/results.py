"""The evaluation of a model on a file: metrics, simple models, slices, drift; printed, as a page, and the errors as a file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from markupsafe import Markup
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from tuneline.analysis.curves import Softmax, calibration, precision_recall_curve, roc_curve
from tuneline.analysis.stats import Estimate, metric_interval
from tuneline.baselines.simple import majority_model, tfidf_model
from tuneline.cli.console import Console
from tuneline.cli.evaluate.files import LabelledFile
from tuneline.cli.evaluate.models import EvaluatedModel
from tuneline.cli.labels.queue import free_names, write_csv
from tuneline.cli.predict import BATCH_SIZE, WINDOW
from tuneline.cli.predict.streaming import TextClassifier
from tuneline.core.files import replace_file
from tuneline.core.paths import RAW
from tuneline.core.provenance import split_hash
from tuneline.core.tables import LabelSchema, SplitReader
from tuneline.core.terminal import phase, progress
from tuneline.evaluation.scoring import (
    RowSlice,
    SplitPredictions,
    baseline_metrics,
    label_slices,
    length_slices,
    overlap_slices,
    score_slices,
    slices_report,
    split_metrics,
    spread_metrics,
)
from tuneline.metrics.functions import load_metric
from tuneline.metrics.scores import averaging, predictions_of
from tuneline.metrics.table import METRIC_TABLE, SIMPLE_MODELS, title_of
from tuneline.params import DataParams, Params
from tuneline.project.params_file import write
from tuneline.reports.drift import DriftLimits, DriftMeasure, RowCounts, measure
from tuneline.reports.evaluation import Slices
from tuneline.results.figures import CURVES, draw_confidence, draw_residuals
from tuneline.results.page import metric_names, render, tiles_of
from tuneline.results.predictions import Confusion, ReportedPredictions, error_sizes, largest_errors
from tuneline.results.verdict import Finding, RunFacts, judge

LIMITS = DriftLimits()
MAX_GROUPS = 20
"""Values of a column, the most frequent ones, that are slices."""


@dataclass(frozen=True)
class Evaluation:
    """A model on the rows of a file.

    Attributes:
        metrics: As in ``metrics/evaluate.json``; without leaks and behaviour tests.
        intervals: Of those metrics that have one.
        notes: What could not be computed, and why.
    """

    model: EvaluatedModel
    file: LabelledFile
    predictions: ReportedPredictions
    metrics: Mapping[str, float]
    intervals: Mapping[str, Estimate]
    slices: Slices
    drift: Sequence[DriftMeasure]
    findings: Sequence[Finding]
    notes: Sequence[str]

    @property
    def simple(self) -> dict[str, float]:
        """The primary metric of the simple models, by their titles."""
        keys = {title: METRIC_TABLE[self.slices.metric].of_baseline(name) for name, title in SIMPLE_MODELS.items()}
        return {title: self.metrics[key] for title, key in keys.items() if key is not None and key in self.metrics}


def evaluate(params: Params, model: EvaluatedModel, file: LabelledFile) -> Evaluation:
    """Predict the rows of a file and compute what the stage ``evaluate`` computes, with its functions."""
    schema, texts = LabelSchema(model.classifier.labels), [column.to_pylist() for column in file.texts.values()]
    settings, notes = params.evaluate, list[str]()
    custom = [load_metric("evaluate.metrics", name, schema) for name in settings.functions]
    with progress(f"evaluate: {file.path}", len(file.labels)) as step:
        logits, lengths = predict_logits(model.classifier, texts, step.advance)
        values = predictions_of(logits, schema)
        predicted = SplitPredictions(file.labels, values, schema, averaging(schema, settings.f1), params.seed)
        phase("metrics")
        metrics = split_metrics(settings, file.labels, schema, logits, custom) | spread_metrics(predicted)
        for name, simple in simple_predictions(params, model, texts, notes):
            metrics |= baseline_metrics(predicted, name, simple)
        phase("slices")
        record = slices_report(score_slices(make_slices(file, texts, lengths, schema), predicted), predicted.primary.name)
        if record.worst is not None:
            metrics[f"worst_slice_{record.metric}"] = record.value(record.worst)
        drift = measure_drift(model, file, values, notes)
    table = [METRIC_TABLE[name] for name in metrics if name in METRIC_TABLE]
    known = {one.name: metric_interval(one, file.labels, values, average=predicted.average, seed=params.seed) for one in table}
    return Evaluation(
        model,
        file,
        ReportedPredictions(file.labels, logits, schema.names),
        metrics,
        {name: estimate for name, estimate in known.items() if estimate is not None},
        record,
        drift,
        judge(RunFacts(metrics, params=model.params)),
        notes,
    )


def predict_logits(model: TextClassifier, texts: Sequence[Sequence[str]], advance: Any) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the logits ``(rows, outputs)`` of texts, one list for each column, and the number of tokens of each row."""
    logits, lengths, rows = [], [], list(zip(*texts, strict=True))
    for start in range(0, len(rows), WINDOW):
        encoded = model.encode(rows[start : start + WINDOW])
        logits.append(model.logits(encoded, BATCH_SIZE))
        lengths.append(encoded.lengths)
        advance(len(encoded))
    return np.concatenate(logits), np.concatenate(lengths)


def simple_predictions(
    params: Params, model: EvaluatedModel, texts: Sequence[Sequence[str]], notes: list[str]
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the predictions of the majority and of TF-IDF, if the data that the model was trained on are here."""
    train = SplitReader.find(RAW, "train")
    if train is None or split_hash(train.paths) != model.record.provenance.data.sha256.get("train"):
        notes.append(f"{RAW} does not have the data of this model: it is not compared with simple models.")
        return
    schema, columns = LabelSchema(model.classifier.labels), model.classifier.text_columns
    for fitted in (majority_model(train, schema), tfidf_model(train, columns, schema, params.seed)):
        yield from fitted(texts).items()


def make_slices(file: LabelledFile, texts: Sequence[Sequence[str]], lengths: NDArray[np.int64], schema: LabelSchema) -> Iterator[RowSlice]:
    """Yield the slices by length, shared words, class, and the columns that ``--by`` names."""
    yield from chain(length_slices(lengths), overlap_slices([texts]) if len(texts) == 2 else ())
    yield from label_slices(file.labels, schema.names or ())
    for name, values in file.groups.items():
        found = sorted(values.value_counts().to_pylist(), key=lambda one: -one["counts"])[:MAX_GROUPS]
        column = np.array(values.to_pylist(), dtype=object)
        yield from (RowSlice(name, str(one["values"] or "(none)"), np.flatnonzero(column == one["values"])) for one in found)


def measure_drift(model: EvaluatedModel, file: LabelledFile, predicted: NDArray[Any], notes: list[str]) -> list[DriftMeasure]:
    """Compare the rows with the training data of the model, as flow ``score`` does."""
    if model.profile is None:
        notes.append("There is no profile of the training data of this model here: drift is not measured.")
    elif len(file.labels) < LIMITS.min_rows:
        notes.append(f"{len(file.labels)} rows are too few to measure drift; it takes {LIMITS.min_rows}.")
    else:
        names = model.classifier.labels
        given = pa.array(predicted) if names is None else pa.array([names[one] for one in predicted.tolist()], pa.string())
        return measure(model.profile, RowCounts.of(model.profile, list(file.texts.values()), given), LIMITS)
    return []


def print_evaluation(result: Evaluation) -> None:
    """Print metrics with intervals, the verdict, the worst slice, drift, and what could not be computed."""
    console, record = Console(soft_wrap=True), result.slices
    left_out = f", {result.file.left_out:,} left out" if result.file.left_out else ""
    table = Table(title=f"{result.model.name} on {result.file.path.name}, {len(result.file.labels):,} rows{left_out}", title_justify="left")
    for name, side in (("", "left"), ("value", "right"), ("95 % interval", "left")):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for name in metric_names(result.metrics):
        ends = result.intervals.get(name)
        table.add_row(title_of(name), f"{result.metrics[name]:.4f}", f"{ends.low:.4f} to {ends.high:.4f}" if ends else "")
    for title, value in result.simple.items():
        table.add_row(f"{title_of(record.metric)} of {title}", f"{value:.4f}", "")
    console.print(table)
    lines = list(map(str, result.findings))
    if (worst := record.worst) is not None:
        ends_of = f"95 % interval {worst.low:.3f} to {worst.high:.3f}"
        lines.append(f"Worst slice: {worst.by} {worst.name}, {record.value(worst):.3f} ({worst.rows:,} rows, {ends_of}).")
    if result.drift:
        drifted = [f"{one.name} {one.value:.3g} (limit {one.limit:g})" for one in result.drift if one.drifted]
        lines.append(f"The texts drifted from the training data: {'; '.join(drifted)}." if drifted else "No drift from the training data.")
    for line in (*lines, *result.notes):
        console.print(Text(line))


def write_errors(path: Path, result: Evaluation, data: DataParams) -> int:
    """Write the wrong predictions, the most confident first (regression: all rows, the largest error first); return their number."""
    shown, file, names = result.predictions, result.file, result.predictions.names
    order = np.argsort(-error_sizes(shown), kind="stable")
    order = order[shown.predicted[order] != shown.labels[order]] if names else order
    rows = pa.array(order)
    label, predicted = (values[order].tolist() for values in (shown.labels, shown.predicted))
    if names is not None:
        label, predicted = ([names[one] for one in values] for values in (label, predicted))
    texts = {name: text.take(rows) for name, text in file.texts.items()}
    added = free_names((file.unit, "label", "predicted", "confidence" if names else "error"), list(texts)).values()
    values = [file.positions.take(rows), pa.array(label), pa.array(predicted), pa.array(error_sizes(shown)[order].round(6))]
    (first, numbers), *others = zip(added, values, strict=True)
    table = pa.table({first: numbers, **texts, **dict(others)})
    if path.suffix.lower() == ".parquet":
        with replace_file(path) as partial:
            pq.write_table(table, partial)
    else:
        write_csv(path, data, table.column_names, zip(*(column.to_pylist() for column in table.columns), strict=True))
    return len(order)


def write_page(path: Path, result: Evaluation) -> None:
    """Write the page, from the templates of the report."""
    shown, file, metric = result.predictions, result.file, result.slices.metric
    errors = largest_errors(shown, None, ())
    texts = [[(name, column[one.row].as_py()) for name, column in file.texts.items()] for one in errors]
    report = {
        **{one.name: getattr(result, one.name) for one in fields(result)},
        "title": f"{', '.join(file.texts)} → {file.label}",
        "is_regression": shown.names is None,
        "simple": result.simple,
        "tiles": tiles_of(result.metrics, metric, {}),
        "figures": draw(shown),
        "confusion": Confusion.of(shown) if shown.names else None,
        "errors": [replace(one, row=file.positions[one.row].as_py(), texts=text) for one, text in zip(errors, texts, strict=True)],
        "about_errors": shown.about_errors,
        "behaviour": None,
    }
    write(path, render(report, "evaluation.html.j2"))


def draw(predictions: ReportedPredictions) -> dict[str, Markup]:
    """Return the figures of predictions, by name."""
    logits, labels = predictions.logits, predictions.labels
    if predictions.names is None:
        points = {"actual": labels.astype(np.float64), "predicted": logits[:, 0].astype(np.float64)}
        return {"scatter": CURVES["scatter"](points, None), "residuals": draw_residuals(predictions)}
    computed = {"precision_recall": precision_recall_curve, "roc": roc_curve, "calibration": calibration}
    curves = {name: dict(compute(Softmax.of(logits), labels)) for name, compute in computed.items()}
    drawn = {name: CURVES[name](curve, None) for name, curve in curves.items() if len(next(iter(curve.values())))}
    return drawn | {"confidence": draw_confidence(predictions)}
