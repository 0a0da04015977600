"""The evaluation of a model on a file: metrics and slices.

The model is in a folder, or belongs to a commit, or to a version or stage of the registry.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.analysis.clusters import cluster_texts
from tuneline.cli.shown_version import registered_commit
from tuneline.columns.numbers import with_numbers_of
from tuneline.evaluation.evaluation import evaluate_predictions
from tuneline.evaluation.records import Slices
from tuneline.evaluation.scoring import SplitPredictions
from tuneline.evaluation.slices import RowSlice, label_slices, length_slices
from tuneline.evaluation.table import ALL_METRICS
from tuneline.experiments.saved import resolve_revision
from tuneline.metrics.functions import load_metric
from tuneline.metrics.stats import Estimate, metric_interval
from tuneline.model.encoding import EncodingError
from tuneline.onnx.exported_model import ExportedModel
from tuneline.onnx.records import ExportRecord
from tuneline.onnx.usage import EXPORT_RECORD
from tuneline.params import Params
from tuneline.params.data import LabelSetsParams
from tuneline.paths import ONNX
from tuneline.predict.model_choice import ModelChoice
from tuneline.predict.streaming import RowReport
from tuneline.program.program_rows import BATCH_SIZE, WINDOW
from tuneline.readers.label_values import written_classes
from tuneline.readers.labelled import LABEL, POSITION, LabelledColumns, has_text, labelled_rows
from tuneline.readers.rows import BadRowPolicy, BadRows, RowProblem
from tuneline.readers.tables import open_table
from tuneline.repository.dvc import by_key, cached_folder
from tuneline.repository.git import lock_at
from tuneline.results.predictions import ReportedPredictions
from tuneline.results.verdict.facts import RunFacts
from tuneline.results.verdict.rules import judge_run
from tuneline.results.verdict.words import Statement, evidence, statements
from tuneline.runtime.atomic_files import temporary_directory
from tuneline.runtime.errors import DataError, StageError, refusing
from tuneline.runtime.terminal import phase, progress
from tuneline.runtime.wording import listed
from tuneline.sniffing.files import Told, sniffed_input
from tuneline.tasks import Task
from tuneline.tasks.columns import array_of, label_type, observed_classes, stored_labels


@dataclass(frozen=True)
class EvaluatedModel:
    """A loaded model.

    Attributes:
        name: What the user named.
        record: Its ``export.json``.
    """

    name: str
    classifier: ExportedModel
    record: ExportRecord

    @property
    def params(self) -> Mapping[str, Any]:
        """Parameters with which it was made, by dotted key."""
        return by_key(stage.parameters for stage in self.record.provenance.stages.values())

    @property
    def label_sets(self) -> LabelSetsParams | None:
        """How the training data writes labels that are sets of names: ``data.label_sets``."""
        layout = self.params.get("data.label_sets")
        return LabelSetsParams(**layout) if layout else None


@contextmanager
def found_model(root: Path, name: str, precision: str | None) -> Iterator[EvaluatedModel]:
    """Load a model.

    Raises:
        StageError: There is no such folder or commit, or DVC's cache lacks the model of the commit.
    """
    if Path(name).exists():
        yield _load(name, Path(name), precision)
        return

    commit = registered_commit(root, name) or resolve_revision(root, name)
    if commit is None:
        raise StageError(
            f"--model {name}: no folder, and no commit, version or stage that git knows.",
            "Run git fetch, or name another.",
        )
    files = cached_folder(root, lock_at(root, commit), ONNX.as_posix())
    if files is None or None in files.values():
        hint = f"Run `dvc fetch --all-commits {ONNX}`, if a DVC remote has it."
        raise StageError(f"--model {name}: DVC's cache does not have {ONNX} of {commit[:12]}.", hint)

    # DVC's cache has files under their hashes: links give them the names that a model's files have
    with temporary_directory() as folder:
        for file, path in files.items():
            (folder / file).symlink_to(Path(str(path)).absolute())
        yield _load(f"{name} ({commit[:12]})", folder, precision)


def _load(name: str, folder: Path, precision: str | None) -> EvaluatedModel:
    choice = ModelChoice(folder, precision)
    classifier = choice.load()
    record = ExportRecord.read(choice.file().parent / EXPORT_RECORD)
    return EvaluatedModel(name, classifier, record)


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
    sets: LabelSetsParams | None = None,
) -> LabelledFile:
    """Read a file, whose labels are class names of the task (or ids, if none is a name), or numbers.

    ``texts``, ``label`` and ``by`` are columns; the encoding is detected by default. ``sets`` is how labels
    are written that are sets of names.

    Raises:
        DataError: The file cannot be read, lacks a column, has no rows, or a bad row where these are an
            error.
    """
    # columns
    columns = LabelledColumns(
        tuple(texts),
        label,
        task,
        by,
        policy=policy,
        sets=sets,
    )
    source = sniffed_input(path, columns.names, Told(encoding=encoding))
    if not task.has_classes:
        source = with_numbers_of(source, label)

    # rows
    unit = source.unit
    printed = RowReport()
    bad = BadRows(
        str(path),
        unit,
        policy,
        lambda problem: printed.add(f"skipped {unit} {problem.line:,}: {problem.reason}"),
    )
    with open_table(source) as table:
        rows = pa.Table.from_batches(labelled_rows(table, columns, bad), columns.schema).combine_chunks()

    # labels
    labels = rows[LABEL].combine_chunks()
    written: Sequence[str] = ()
    if task.has_classes:
        written = written_classes(task.output_names, observed_classes(task, labels))
        labels = stored_labels(task, labels, written)
    is_known = labels.is_valid().to_numpy(zero_copy_only=False)
    is_known[is_known] = task.valid(array_of(task, labels.drop_null()))
    is_used = np.ones(len(rows), dtype=bool)
    problems = _problems(rows, is_known, texts, label, classes=task.output_names, written=written)
    for index, problem in problems:
        is_used[index] = False
        bad.add(problem)
    bad.check(int(is_used.sum()))
    if not is_used.any():
        raise DataError(f"{path} has no labelled rows.", f"It needs rows with text and a label in {label!r}.")

    (kept,) = rows.filter(pa.array(is_used)).combine_chunks().to_batches()
    return LabelledFile(
        path,
        label,
        texts={name: kept[f"text_{index}"] for index, name in enumerate(texts)},
        groups={name: kept[f"other_{index}"] for index, name in enumerate(by)},
        positions=kept[POSITION],
        labels=array_of(task, labels.filter(pa.array(is_used)).cast(label_type(task))),
        unit=unit,
        left_out=bad.count,
    )


def _problems(
    rows: pa.Table,
    is_known: NDArray[np.bool_],
    texts: Sequence[str],
    label: str,
    *,
    classes: Sequence[str],
    written: Sequence[str],
) -> Iterator[tuple[int, RowProblem]]:
    """Yield the rows without text, without a label, or with a label that is none of the classes.

    Args:
        rows: All rows.
        is_known: Which rows have a label that the model knows.
        texts: Names of the text columns.
        label: Name of the label column.
        classes: The class names.
        written: How each class is written in the file.
    """
    filled = has_text([rows[f"text_{index}"].combine_chunks() for index in range(len(texts))])
    is_usable = filled.to_numpy(zero_copy_only=False) & is_known
    for index in np.flatnonzero(~is_usable).tolist():
        value = rows[LABEL][index].as_py()
        position = rows[POSITION][index].as_py()
        if not filled[index].as_py():
            columns = " and ".join(map(repr, texts))
            problem = RowProblem(position, "no text", "Every row needs text.", columns)
        elif value is None:
            hint = "`tuneline predict` takes rows without labels."
            problem = RowProblem(position, "no label", hint, repr(label))
        else:
            names = value if isinstance(value, list) else [value]
            unknown = next((name for name in names if name not in written), value)
            message = f"the model has no class {unknown!r}"
            problem = RowProblem(position, message, f"It knows {listed(classes)}.", repr(label))
        yield index, problem


MAX_GROUPS = 20
"""Values of a column, the most frequent ones, that are slices."""


@dataclass(frozen=True)
class FileEvaluation:
    """A model on the rows of a file.

    Attributes:
        metrics: As in ``metrics/evaluate.json``; without leaks and behaviour tests.
        intervals: The intervals of the metrics that have one.
        notes: What could not be computed, and why.
        evidence: The number of rows, and of those that are independent, in words.
    """

    model: EvaluatedModel
    file: LabelledFile
    predictions: ReportedPredictions
    metrics: Mapping[str, float]
    intervals: Mapping[str, Estimate]
    slices: Slices
    verdict: Sequence[Statement]
    notes: Sequence[str]
    evidence: str


def evaluate_file(params: Params, model: EvaluatedModel, file: LabelledFile) -> FileEvaluation:
    """Predict the rows of a file, and compute what the stage ``evaluate`` computes for the reported split.

    Raises:
        InputError: The tokenizer of the model fails on a row.
    """
    schema = model.classifier.task
    texts = [column.to_pylist() for column in file.texts.values()]
    notes: list[str] = []
    custom = [
        load_metric("evaluate.metrics", name, schema, ALL_METRICS) for name in params.evaluate.functions
    ]

    with progress(f"evaluate: {file.path}", len(file.labels)) as step:
        logits, lengths = _predicted(model.classifier, file, texts, notes, step.advance)
        phase("independent rows")
        clusters = cluster_texts(list(file.texts.values()), params.validate_.near_duplicate_similarity)
        predictions = ReportedPredictions(file.labels, logits, schema, clusters)
        evaluation = evaluate_predictions(
            predictions,
            make_file_slices(file, lengths, schema),
            {},
            seed=params.seed,
            metric=model.params.get("train.metric"),
            custom=custom,
        )
        metrics = evaluation.metrics | evaluation.worst_slice

    # the rows of the file are counted by their texts, whatever the training data was divided by
    known = {key: value for key, value in model.params.items() if key != "data.split"}
    run = RunFacts(metrics, {"head_is_frozen": int(model.record.head == "frozen")}, known)
    return FileEvaluation(
        model,
        file,
        predictions,
        metrics,
        _intervals(metrics, evaluation.predictions),
        evaluation.slices,
        statements(judge_run(run)),
        notes,
        evidence(run),
    )


def _predicted(
    classifier: ExportedModel,
    file: LabelledFile,
    texts: Sequence[Sequence[str]],
    notes: list[str],
    advance: Callable[[int], None],
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the logits and the tokens of each row; an error names the row, and a note counts long rows."""
    try:
        logits, lengths, truncated = predict_logits(classifier, texts, advance)
    except EncodingError as error:
        with refusing():
            raise error.at(f"{file.path}, {file.unit} {file.positions[error.row]}") from None
    if truncated:
        notes.append(f"{truncated:,} of {len(file.labels):,} rows are {classifier.unread}.")
    return logits, lengths


def _intervals(metrics: Mapping[str, float], predicted: SplitPredictions) -> dict[str, Estimate]:
    """Return the intervals of the metrics that have one, by name."""
    intervals = {}
    for name in metrics:
        if name not in ALL_METRICS:
            continue
        metric = ALL_METRICS[name]
        estimate = metric_interval(
            metric,
            predicted.labels,
            predicted.values,
            average=predicted.average,
            seed=predicted.seed,
            clusters=predicted.clusters,
        )
        if estimate is not None:
            intervals[metric.name] = estimate
    return intervals


def predict_logits(
    model: ExportedModel, texts: Sequence[Sequence[str]], advance: Callable[[int], None]
) -> tuple[NDArray[np.float32], NDArray[np.int64], int]:
    """Predict texts, one list for each column, window by window.

    Returns:
        The logits ``(rows, outputs)``, the tokens of each row ``(rows,)``, and how many rows were truncated.

    Raises:
        EncodingError: The tokenizer fails on a row.
    """
    rows = list(zip(*texts, strict=True))
    logits = []
    lengths = []
    truncated = 0
    for start in range(0, len(rows), WINDOW):
        try:
            encoded = model.encode(rows[start : start + WINDOW])
        except EncodingError as error:
            error.row += start  # counted from the first row of the file
            raise
        logits.append(model.logits(encoded, BATCH_SIZE))
        lengths.append(encoded.lengths)
        truncated += encoded.truncated
        advance(len(encoded))
    return np.concatenate(logits), np.concatenate(lengths), truncated


def make_file_slices(file: LabelledFile, lengths: NDArray[np.int64], schema: Task) -> Iterator[RowSlice]:
    """Yield the slices by length, class, and the columns that ``--by`` names."""
    yield from length_slices(lengths)
    yield from label_slices(file.labels, schema)
    for name, values in file.groups.items():
        column = np.array(values.to_pylist(), dtype=object)
        groups = sorted(values.value_counts().to_pylist(), key=lambda group: -group["counts"])
        for group in groups[:MAX_GROUPS]:
            title = str(group["values"] or "(none)")
            yield RowSlice(name, title, np.flatnonzero(column == group["values"]))
