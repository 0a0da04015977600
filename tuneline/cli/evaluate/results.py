"""The evaluation of a model on a file: metrics, simple models, slices, drift; printed, as a page, and the errors as a file.

The model is that of a folder, of a commit, or of a version or stage of the registry.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from markupsafe import Markup
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from tuneline.analysis.baselines import majority_model, tfidf_model
from tuneline.cli.console import Console
from tuneline.cli.init.planning import open_row_file
from tuneline.cli.predict import BATCH_SIZE, WINDOW, refusing
from tuneline.cli.predict.streaming import ModelChoice, RowReport
from tuneline.core.errors import DataError, StageError
from tuneline.core.files import replace_file, temporary_directory
from tuneline.core.paths import BASE_MODEL, BASE_RECORD, CHECKS, ONNX, RAW, TOKENIZER
from tuneline.core.provenance import BaseSource, split_hash
from tuneline.core.tables import SplitReader
from tuneline.core.terminal import phase, progress
from tuneline.evaluation.records import Slices
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
from tuneline.metrics.curves import Softmax, calibration, precision_recall_curve, roc_curve
from tuneline.metrics.functions import load_metric
from tuneline.metrics.stats import Estimate, metric_interval
from tuneline.metrics.table import METRIC_TABLE, SIMPLE_MODELS, title_of
from tuneline.model.encoding import EncodingError
from tuneline.model.frozen_baselines import FrozenEncoder, fit_frozen_baselines
from tuneline.onnx.records import EXPORT_RECORD, ExportRecord
from tuneline.onnx.text_classifier import TextClassifier
from tuneline.params import DataParams, Params
from tuneline.project.dvc import by_key, cached_folder, cached_out
from tuneline.project.params_file import write
from tuneline.project.repo import lock_at, registries
from tuneline.project.saved_experiments import resolve_revision
from tuneline.project.spreadsheet import free_names, harmless, write_csv
from tuneline.readers.inputs import open_table
from tuneline.readers.labelled import (
    LABEL,
    POSITION,
    LabelledColumns,
    has_text,
    labelled_rows,
    written_classes,
)
from tuneline.readers.layout import detect_layout
from tuneline.readers.rows import BadRowPolicy, BadRows, RowProblem, check_columns, listed
from tuneline.reports.checks import Profile
from tuneline.reports.drift import DriftMeasure, RowCounts, drift_measures
from tuneline.results.figures import CURVES, draw_confidence, draw_residuals
from tuneline.results.findings import Finding
from tuneline.results.page import metric_names, render_report, tiles_of
from tuneline.results.predictions import Confusion, ReportedPredictions, largest_errors
from tuneline.results.verdict import RunFacts, judge_run
from tuneline.settings import DriftLimits
from tuneline.tasks import Task

PROFILE = CHECKS / "profile.json"


@dataclass(frozen=True)
class EvaluatedModel:
    """A loaded model.

    Attributes:
        name: What the user named.
        record: Its ``export.json``.
        profile: Profile of its training data; ``None`` if it is not known.
    """

    name: str
    classifier: TextClassifier
    record: ExportRecord
    profile: Profile | None

    @property
    def params(self) -> Mapping[str, Any]:
        """Parameters with which it was made, by dotted key."""
        return by_key(stage.parameters for stage in self.record.provenance.stages.values())


@contextmanager
def found_model(root: Path, name: str, precision: str | None) -> Iterator[EvaluatedModel]:
    """Load a model.

    Raises:
        StageError: There is no such folder or commit, or DVC's cache lacks the model of the commit.
    """
    if Path(name).exists():
        profile = (
            Profile.read_if_valid(root / PROFILE) if Path(name).resolve() == (root / ONNX).resolve() else None
        )
        yield _load(name, Path(name), precision, profile)
        return
    commit = _commit(root, name)
    if commit is None:
        raise StageError(
            f"--model {name}: no folder, and no commit, version or stage that git knows.",
            "Run git fetch, or name another.",
        )
    lock = lock_at(root, commit)
    files = cached_folder(root, lock, ONNX.as_posix())
    if files is None or None in files.values():
        hint = f"Run `dvc fetch --rev {commit[:12]} {ONNX} {CHECKS}`, if a DVC remote has them."
        raise StageError(f"--model {name}: DVC's cache does not have {ONNX} of {commit[:12]}.", hint)
    cached = cached_out(root, lock, PROFILE.as_posix())
    with temporary_directory() as folder:
        for file, path in files.items():
            (folder / file).symlink_to(Path(str(path)).absolute())
        yield _load(
            f"{name} ({commit[:12]})", folder, precision, Profile.read_if_valid(cached) if cached else None
        )


def _commit(root: Path, name: str) -> str | None:
    """Return the commit of a version or stage of the artifact ``onnx``, else that of a revision or experiment."""
    if tags := registries(root).get(ONNX.name):
        found = next((version for version in tags.versions if version.name == name), None) or tags.in_stage(
            name
        )
        if found is not None:
            return found.commit
    return resolve_revision(root, name)


def _load(name: str, folder: Path, precision: str | None, profile: Profile | None) -> EvaluatedModel:
    choice = ModelChoice(folder, precision)
    classifier, file = choice.load_and_warn(), choice.file()
    return EvaluatedModel(name, classifier, ExportRecord.read(file.parent / EXPORT_RECORD), profile)


@dataclass(frozen=True)
class LabelledFile:
    """The rows of a file, at least one.

    Attributes:
        label: Name of the label column.
        texts: The text columns by name.
        groups: The columns by whose values there are slices.
        positions: The line of each row; its row in a Parquet file.
        labels: Class ids or numbers, of shape ``(rows,)``.
        unit: What positions count: ``line`` or ``row``.
        left_out: Number of bad rows.
    """

    path: Path
    label: str
    texts: dict[str, pa.Array]
    groups: dict[str, pa.Array]
    positions: pa.Array
    labels: NDArray[Any]
    unit: str
    left_out: int


def read_labelled(
    path: Path,
    texts: Sequence[str],
    label: str,
    task: Task,
    policy: BadRowPolicy,
    *,
    by: Sequence[str] = (),
    encoding: str | None = None,
) -> LabelledFile:
    """Read a file, whose labels are class names of the task (or ids, if none is a name), or numbers.

    ``texts``, ``label`` and ``by`` are columns; the encoding is detected by default.

    Raises:
        DataError: The file cannot be read, lacks a column, has no rows, or a bad row where these are an
            error.
    """
    file, printed = open_row_file(path, detect_layout(path, encoding), policy=policy), RowReport()
    others = dict.fromkeys(by, "--by")
    check_columns(file.columns, dict.fromkeys(texts, "--text") | {label: "--label"} | others, str(path))
    unit = file.source.unit
    bad = BadRows(
        str(path),
        unit,
        policy,
        lambda problem: printed.add(f"skipped {problem.place(unit)}: {problem.message}"),
    )
    columns = LabelledColumns(tuple(texts), label, type(task), others, sparse=True, policy=policy)
    with open_table(file.source) as table:
        rows = pa.Table.from_batches(labelled_rows(table, columns, bad), columns.schema).combine_chunks()
    labels = rows[LABEL]
    if task.has_classes:
        written = written_classes(task.output_names, set(pc.unique(labels.drop_null()).to_pylist()))
        labels = pc.index_in(labels, value_set=pa.array(written, pa.string()), skip_nulls=True)
    used = np.ones(len(rows), dtype=bool)
    for index, problem in _problems(rows, labels, texts, label, task.output_names):
        used[index] = False
        bad.add(problem)
    bad.check(int(used.sum()))
    if not used.any():
        raise DataError(f"{path} has no labelled rows.", f"It needs rows with text and a label in {label!r}.")
    (kept,) = rows.filter(pa.array(used)).combine_chunks().to_batches()
    of_texts = {name: kept[f"text_{index}"] for index, name in enumerate(texts)}
    groups = {name: kept[f"other_{index}"] for index, name in enumerate(by)}
    ids = labels.to_numpy()[used].astype(task.label_type.to_pandas_dtype())
    return LabelledFile(path, label, of_texts, groups, kept[POSITION], ids, unit, bad.count)


def _problems(
    rows: pa.Table, labels: pa.ChunkedArray, texts: Sequence[str], label: str, classes: Sequence[str]
) -> Iterator[tuple[int, RowProblem]]:
    """Yield the rows without text, without a label, or with one that is none of the classes."""
    filled = has_text([rows[f"text_{index}"].combine_chunks() for index in range(len(texts))])
    usable = filled.to_numpy(zero_copy_only=False) & labels.is_valid().to_numpy()
    for index in np.flatnonzero(~usable).tolist():
        given, position = rows[LABEL][index].as_py(), rows[POSITION][index].as_py()
        if not filled[index].as_py():
            yield (
                index,
                RowProblem(position, "no text", "Every row needs text.", " and ".join(map(repr, texts))),
            )
        elif given is None:
            yield (
                index,
                RowProblem(
                    position, "no label", "`tuneline predict` takes rows without labels.", repr(label)
                ),
            )
        else:
            yield (
                index,
                RowProblem(
                    position, f"the model has no class {given!r}", f"It knows {listed(classes)}.", repr(label)
                ),
            )


LIMITS = DriftLimits()
MAX_GROUPS = 20
"""Values of a column, the most frequent ones, that are slices."""


@dataclass(frozen=True)
class FileEvaluation:
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
        keys = {
            title: METRIC_TABLE[self.slices.metric].of_baseline(name) for name, title in SIMPLE_MODELS.items()
        }
        return {
            title: self.metrics[key] for title, key in keys.items() if key is not None and key in self.metrics
        }


def evaluate_file(params: Params, model: EvaluatedModel, file: LabelledFile) -> FileEvaluation:
    """Predict the rows of a file and compute what the stage ``evaluate`` computes, with its functions.

    Raises:
        InputError: The tokenizer of the model fails on a row.
    """
    schema, texts = model.classifier.task, [column.to_pylist() for column in file.texts.values()]
    settings, notes = params.evaluate, list[str]()
    custom = [load_metric("evaluate.metrics", name, schema) for name in settings.functions]
    with progress(f"evaluate: {file.path}", len(file.labels)) as step:
        try:
            logits, lengths, truncated = predict_logits(model.classifier, texts, step.advance)
        except EncodingError as error:
            with refusing():
                raise error.at(f"{file.path}, {file.unit} {file.positions[error.row]}") from None
        if truncated:
            most = model.classifier.max_length
            notes.append(
                f"{truncated:,} of {len(file.labels):,} rows are longer than {most} tokens: the model did not"
                " read the rest."
            )
        values = schema.predictions(logits)
        predicted = SplitPredictions(file.labels, values, schema, schema.averaging(settings.f1), params.seed)
        phase("metrics")
        metrics = split_metrics(settings, file.labels, schema, logits, custom) | spread_metrics(predicted)
        for name, simple in simple_predictions(params, model, texts, notes):
            metrics |= baseline_metrics(predicted, name, simple)
        phase("slices")
        record = slices_report(
            score_slices(make_file_slices(file, texts, lengths, schema), predicted), predicted.primary.name
        )
        if record.worst is not None:
            metrics[f"worst_slice_{record.metric}"] = record.value(record.worst)
        drift = measure_drift(model, file, values, notes)
    table = [METRIC_TABLE[name] for name in metrics if name in METRIC_TABLE]
    known = {
        metric.name: metric_interval(metric, file.labels, values, average=predicted.average, seed=params.seed)
        for metric in table
    }
    return FileEvaluation(
        model,
        file,
        ReportedPredictions(file.labels, logits, schema),
        metrics,
        {name: estimate for name, estimate in known.items() if estimate is not None},
        record,
        drift,
        judge_run(RunFacts(metrics, {"head_is_frozen": int(model.record.head == "frozen")}, model.params)),
        notes,
    )


def predict_logits(
    model: TextClassifier, texts: Sequence[Sequence[str]], advance: Any
) -> tuple[NDArray[np.float32], NDArray[np.int64], int]:
    """Return the logits ``(rows, outputs)`` of texts, one list for each column, the tokens of each row, and how many were truncated.

    Raises:
        EncodingError: The tokenizer fails on a row.
    """
    logits, lengths, truncated, rows = [], [], 0, list(zip(*texts, strict=True))
    for start in range(0, len(rows), WINDOW):
        try:
            encoded = model.encode(rows[start : start + WINDOW])
        except EncodingError as error:
            error.row += start
            raise
        logits.append(model.logits(encoded, BATCH_SIZE))
        lengths.append(encoded.lengths)
        truncated += encoded.truncated
        advance(len(encoded))
    return np.concatenate(logits), np.concatenate(lengths), truncated


def simple_predictions(
    params: Params, model: EvaluatedModel, texts: Sequence[Sequence[str]], notes: list[str]
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the predictions of the simple models that the stage ``baseline`` fits, if what the model was made of is here."""
    train, validation = (SplitReader.find(RAW, split) for split in ("train", "validation"))
    if train is None or split_hash(train.paths) != model.record.provenance.data.sha256.get("train"):
        notes.append(f"{RAW} does not have the data of this model: it is not compared with simple models.")
        return
    schema, columns = model.classifier.task, model.classifier.text_columns
    for fitted in (majority_model(train, schema), tfidf_model(train, columns, schema, params.seed)):
        yield from fitted(texts).items()
    base = model.record.provenance.base
    if base is None or base.checkpoint is None or validation is None:
        return
    if base != BaseSource.read_if_valid(BASE_RECORD) or not TOKENIZER.is_dir():
        notes.append(
            "models/base does not have the checkpoint of this model: it is not compared with the frozen"
            " checkpoint."
        )
        return
    phase("vectors of the frozen checkpoint")
    encoder = FrozenEncoder.load(BASE_MODEL, TOKENIZER)
    yield from fit_frozen_baselines(encoder, (train, validation), columns, params.seed).predict(texts).items()


def make_file_slices(
    file: LabelledFile, texts: Sequence[Sequence[str]], lengths: NDArray[np.int64], schema: Task
) -> Iterator[RowSlice]:
    """Yield the slices by length, shared words, class, and the columns that ``--by`` names."""
    yield from chain(length_slices(lengths), overlap_slices([texts]) if len(texts) == 2 else ())
    yield from label_slices(file.labels, schema.class_names)
    for name, values in file.groups.items():
        groups = sorted(values.value_counts().to_pylist(), key=lambda group: -group["counts"])[:MAX_GROUPS]
        column = np.array(values.to_pylist(), dtype=object)
        yield from (
            RowSlice(name, str(group["values"] or "(none)"), np.flatnonzero(column == group["values"]))
            for group in groups
        )


def measure_drift(
    model: EvaluatedModel, file: LabelledFile, predicted: NDArray[Any], notes: list[str]
) -> list[DriftMeasure]:
    """Compare the rows with the training data of the model, as flow ``score`` does."""
    if model.profile is None:
        notes.append("There is no profile of the training data of this model here: drift is not measured.")
    elif len(file.labels) < LIMITS.min_rows:
        notes.append(f"{len(file.labels)} rows are too few to measure drift; it takes {LIMITS.min_rows}.")
    else:
        given = model.classifier.task.decoded(predicted)
        return drift_measures(
            model.profile, RowCounts.of(model.profile, list(file.texts.values()), given), LIMITS
        )
    return []


def print_evaluation(result: FileEvaluation) -> None:
    """Print metrics with intervals, the verdict, the worst slice, drift, and what could not be computed."""
    console, record = Console(soft_wrap=True), result.slices
    left_out = f", {result.file.left_out:,} left out" if result.file.left_out else ""
    table = Table(
        title=f"{result.model.name} on {result.file.path.name}, {len(result.file.labels):,} rows{left_out}",
        title_justify="left",
    )
    for name, side in (("", "left"), ("value", "right"), ("95 % interval", "left")):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for name in metric_names(result.metrics):
        ends = result.intervals.get(name)
        table.add_row(
            title_of(name),
            f"{result.metrics[name]:.4f}",
            f"{ends.low:.4f} to {ends.high:.4f}" if ends else "",
        )
    for title, value in result.simple.items():
        table.add_row(f"{title_of(record.metric)} of {title}", f"{value:.4f}", "")
    console.print(table)
    lines = list(map(str, result.findings))
    if (worst := record.worst) is not None:
        ends_of = f"95 % interval {worst.low:.3f} to {worst.high:.3f}"
        lines.append(
            f"Worst slice: {worst.by} {worst.name}, {record.value(worst):.3f} ({worst.rows:,} rows,"
            f" {ends_of})."
        )
    if result.drift:
        drifted = [
            f"{measure.name} {measure.value:.3g} (limit {measure.limit:g})"
            for measure in result.drift
            if measure.drifted
        ]
        lines.append(
            f"The texts drifted from the training data: {'; '.join(drifted)}."
            if drifted
            else "No drift from the training data."
        )
    for line in (*lines, *result.notes):
        console.print(Text(line))


def write_errors(path: Path, result: FileEvaluation, data: DataParams) -> int:
    """Write the wrong predictions, the most confident first (of numbers: all rows, the largest error first); return their number."""
    shown, file, task = result.predictions, result.file, result.predictions.task
    sizes = shown.error_sizes
    order = np.argsort(-sizes, kind="stable")
    order = order[shown.errors[order]]
    rows = pa.array(order)
    label, predicted = (
        list(map(task.label_value, values[order].tolist())) for values in (shown.labels, shown.predicted)
    )
    texts = {name: text.take(rows) for name, text in file.texts.items()}
    added = free_names((file.unit, "label", "predicted", task.error_size), list(texts)).values()
    values = [
        file.positions.take(rows),
        pa.array(label),
        pa.array(predicted),
        pa.array(sizes[order].round(6)),
    ]
    (first, numbers), *others = zip(added, values, strict=True)
    table = pa.table({first: numbers, **texts, **dict(others)})
    if path.suffix.lower() == ".parquet":
        with replace_file(path) as partial:
            pq.write_table(table, partial)
    else:
        header = [harmless(name) for name in table.column_names]  # those of the file, which others wrote
        write_csv(path, data, header, zip(*(column.to_pylist() for column in table.columns), strict=True))
    return len(order)


def write_page(path: Path, result: FileEvaluation) -> None:
    """Write the page, from the templates of the report."""
    shown, file, metric = result.predictions, result.file, result.slices.metric
    errors = largest_errors(shown, None, ())
    texts = [[(name, column[one.row].as_py()) for name, column in file.texts.items()] for one in errors]
    report = {
        **{one.name: getattr(result, one.name) for one in fields(result)},
        "title": f"{', '.join(file.texts)} → {file.label}",
        "task": shown.task,
        "simple": result.simple,
        "tiles": tiles_of(result.metrics, metric, {}),
        "figures": draw(shown),
        "confusion": Confusion.of(shown),
        "errors": [
            replace(one, row=file.positions[one.row].as_py(), texts=text)
            for one, text in zip(errors, texts, strict=True)
        ],
        "about_errors": shown.about_errors,
        "behaviour": None,
    }
    write(path, render_report(report, "evaluation.html.j2"))


def draw(predictions: ReportedPredictions) -> dict[str, Markup]:
    """Return the figures of predictions, by name."""
    logits, labels = predictions.logits, predictions.labels
    if not predictions.task.has_classes:
        points = {"actual": labels.astype(np.float64), "predicted": logits[:, 0].astype(np.float64)}
        return {"scatter": CURVES["scatter"](points, None), "residuals": draw_residuals(predictions)}
    computed = {"precision_recall": precision_recall_curve, "roc": roc_curve, "calibration": calibration}
    curves = {name: dict(compute(Softmax.of(logits), labels)) for name, compute in computed.items()}
    drawn = {
        name: CURVES[name](curve, None) for name, curve in curves.items() if len(next(iter(curve.values())))
    }
    return drawn | {"confidence": draw_confidence(predictions)}
