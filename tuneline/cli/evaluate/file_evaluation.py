"""The evaluation of a model on a file: metrics, slices and errors.

The model is in a folder, or in a stage of the registry.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from tuneline.checks.analysis.clusters import cluster_texts
from tuneline.cli.console import Console
from tuneline.core.params import DataParams, Params
from tuneline.core.params.data import LabelSetsParams
from tuneline.core.repository.dvc import by_key
from tuneline.core.repository.promoted_models import ModelRepository
from tuneline.core.runtime.errors import DataError, StageError, refusing
from tuneline.core.runtime.terminal import listed, phase, progress
from tuneline.core.stage.records import NUMBER_DIGITS, rounded_numbers, shown
from tuneline.judge.decisions.rule import NO_NUMBER
from tuneline.judge.evaluation.evaluation import evaluate_predictions
from tuneline.judge.evaluation.keys import metric_names
from tuneline.judge.evaluation.table import ALL_METRICS
from tuneline.judge.metrics.functions import load_metric
from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.table import project_metric
from tuneline.model.tasks import Task
from tuneline.model.tasks.columns import (
    array_of,
    label_type,
    observed_classes,
    stored_labels,
)
from tuneline.model.tokens.encoding import EncodingError
from tuneline.onnx.exported_model import ExportedModel
from tuneline.onnx.records import ExportRecord
from tuneline.onnx.usage import EXPORT_RECORD
from tuneline.page.predictions import error_name, error_sizes
from tuneline.page.titles import positive_class, title_of
from tuneline.page.verdict.facts import RunFacts
from tuneline.page.verdict.rules import judge_run
from tuneline.rows.proposals.files import sniffed_input
from tuneline.rows.proposals.spreadsheet import free_names, harmless, write_csv
from tuneline.rows.reading.label_values import written_classes
from tuneline.rows.reading.labelled import LABEL, POSITION, LabelledColumns, has_text, labelled_rows
from tuneline.rows.reading.rows import BadRowPolicy, BadRows, RowProblem
from tuneline.rows.reading.tables import open_table
from tuneline.serve.columns import cell_text
from tuneline.serve.model_choice import ModelChoice
from tuneline.serve.program_rows import BATCH_SIZE, WINDOW


@dataclass(frozen=True)
class EvaluatedModel:
    """A loaded model.

    Attributes:
        name: What the user named.
        record: Its ``export.json``.
        params: Parameters with which it was made, by dotted key.
    """

    name: str
    classifier: ExportedModel
    record: ExportRecord
    params: Mapping[str, Any]

    @property
    def label_sets(self) -> LabelSetsParams | None:
        """How the training data writes labels that are sets of names: ``data.label_sets``."""
        layout = self.params.get("data.label_sets")
        if not layout:
            return None
        return LabelSetsParams(**layout)


@contextmanager
def found_model(name: str, precision: str | None) -> Iterator[EvaluatedModel]:
    """Load the model of a folder, or of a stage of the registry.

    Raises:
        StageError: There is no such folder or stage, or the files of its version cannot be fetched.
    """
    if Path(name).exists():
        yield _load(name, Path(name), precision)
        return
    models = ModelRepository(".")
    version = models.version(name)
    with models.files(version) as folder:
        yield _load(f"{name} ({version.name})", folder, precision)


def _load(name: str, folder: Path, precision: str | None) -> EvaluatedModel:
    choice = ModelChoice(folder, precision)
    classifier = choice.load()
    record = ExportRecord.read(choice.file().parent / EXPORT_RECORD)
    params = by_key(stage.parameters for stage in record.provenance.stages.values())
    return EvaluatedModel(name, classifier, record, params)


@dataclass(frozen=True)
class LabelledFile:
    """The rows of a file, at least one.

    Attributes:
        texts: The text columns by name.
        positions: The line of each row; its row in a Parquet file.
        labels: Class ids or numbers, of shape ``(rows,)``.
        unit: What positions count: ``line`` or ``row``.
        left_out: Number of bad rows.
    """

    path: Path
    texts: dict[str, pa.Array]
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
    encoding: str | None = None,
    sets: LabelSetsParams | None = None,
) -> LabelledFile:
    """Read a file, whose labels are class names of the task (or ids, if none is a name), or numbers.

    ``texts`` and ``label`` are columns; the encoding is detected by default. ``sets`` is how labels are
    written that are sets of names.

    Raises:
        DataError: The file cannot be read, lacks a column, has no rows, or a bad row where these are an
            error.
    """
    # columns
    columns = LabelledColumns(tuple(texts), label, task, policy=policy, sets=sets)
    source = sniffed_input(path, columns.names, None, encoding)

    # rows
    bad = BadRows(str(path), source.unit, policy, printed=True)
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

    # rows without text, without a label, or with a label that is none of the classes
    filled = has_text([rows[f"text_{index}"].combine_chunks() for index in range(len(texts))])
    is_filled = filled.to_numpy(zero_copy_only=False)
    is_used = is_filled & is_known
    for index in np.flatnonzero(~is_used).tolist():
        position = rows[POSITION][index].as_py()
        if not is_filled[index]:
            names = " and ".join(map(repr, texts))
            bad.add(RowProblem(position, "no text", "Every row needs text.", names))
        else:
            bad.add(_label_problem(rows[LABEL][index].as_py(), position, label, task, written))
    bad.check(int(is_used.sum()))
    if not is_used.any():
        raise DataError(f"{path} has no labelled rows.", f"It needs rows with text and a label in {label!r}.")

    (kept,) = rows.filter(pa.array(is_used)).combine_chunks().to_batches()
    return LabelledFile(
        path,
        texts={name: kept[f"text_{index}"] for index, name in enumerate(texts)},
        positions=kept[POSITION],
        labels=array_of(task, labels.filter(pa.array(is_used)).cast(label_type(task))),
        unit=source.unit,
        left_out=bad.count,
    )


def _label_problem(value: Any, position: int, label: str, task: Task, written: Sequence[str]) -> RowProblem:
    """Return what is wrong with a label; ``written`` is how each class is written in the file."""
    if value is None:
        return RowProblem(position, "no label", "`tuneline predict` takes rows without labels.", repr(label))
    names = value if isinstance(value, list) else [value]
    unknown = next((name for name in names if name not in written), value)
    hint = f"It knows {listed(task.output_names)}."
    return RowProblem(position, f"the model has no class {unknown!r}", hint, repr(label))


def evaluate_file(
    params: Params, model: EvaluatedModel, file: LabelledFile
) -> tuple[Predictions, dict[str, float]]:
    """Predict the rows of a file, and print what the stage ``evaluate`` computes for the reported split.

    Returns:
        The predictions, and the metrics as in ``metrics/evaluate.json``, without leaks.

    Raises:
        InputError: The tokenizer of the model fails on a row.
    """
    task = model.classifier.task
    custom = []
    for name in params.evaluate.functions:
        custom.append(load_metric("evaluate.metrics", name, task, ALL_METRICS))

    with progress(f"evaluate: {file.path}", len(file.labels)) as step:
        logits, lengths, truncated = predict_logits(model.classifier, file, step.advance)
        phase("independent rows")
        clusters = cluster_texts(list(file.texts.values()), params.validate_.near_duplicate_similarity)
        predictions = Predictions.of_logits(file.labels, logits, task, clusters)
        metrics, slices = evaluate_predictions(
            predictions,
            lengths,
            {},
            deciding=project_metric(task.judged_as, model.params.get("train.metric")),
            seed=params.seed,
            custom=custom,
        )

    positive = positive_class(task.names, task.decisions)
    training = {"head_is_frozen": int(model.record.head == "frozen")}
    run = RunFacts(metrics, training, model.params, positive=positive)
    title = f"{model.name} on {file.path.name}, {run.evidence}"
    if file.left_out:
        title += f", {file.left_out:,} left out"
    console = Console(soft_wrap=True)
    console.print(_metrics_table(title, metrics, predictions, params.seed))

    # the verdict, the worst slice, and what the model did not read
    lines = [str(finding) for finding in judge_run(run)]
    worst = slices.worst
    if worst is not None:
        lines.append(
            f"Worst slice: {worst.by} {worst.name}, {title_of(slices.metric)}"
            f" {slices.value(worst):.3f} ({worst.rows:,} rows, 95 % interval {worst.low:.3f} to"
            f" {worst.high:.3f})."
        )
    if truncated:
        lines.append(f"{truncated:,} of {run.rows:,} rows are {model.classifier.unread}.")
    for line in lines:
        console.print(Text(line))
    return predictions, metrics


def _metrics_table(title: str, metrics: Mapping[str, float], predictions: Predictions, seed: int) -> Table:
    """Return the table of the metrics, with the intervals of those that have one."""
    positive = positive_class(predictions.task.names, predictions.task.decisions)
    table = Table(title=title, title_justify="left")
    table.add_column("", justify="left")
    table.add_column("value", justify="right")
    table.add_column("95 % interval", justify="left")
    for name in metric_names(metrics):
        interval = ""
        if name in ALL_METRICS and ALL_METRICS[name].resampled:
            estimate = predictions.interval(ALL_METRICS[name], seed)
            interval = f"{estimate.low:.4f} to {estimate.high:.4f}"
        table.add_row(title_of(name, positive), shown(metrics[name], 4), interval)
    return table


def predict_logits(
    model: ExportedModel, file: LabelledFile, advance: Callable[[int], None]
) -> tuple[NDArray[np.float32], NDArray[np.int64], int]:
    """Predict the rows of a file, window by window.

    Returns:
        The logits ``(rows, outputs)``, the tokens of each row ``(rows,)``, and how many rows were truncated.

    Raises:
        InputError: The tokenizer fails on a row, which the error names.
        StageError: The model gave no finite number for a row.
    """
    rows = list(zip(*(column.to_pylist() for column in file.texts.values()), strict=True))
    logits = []
    lengths = []
    truncated = 0
    for start in range(0, len(rows), WINDOW):
        try:
            encoded = model.encode(rows[start : start + WINDOW])
        except EncodingError as error:
            with refusing():
                raise error.at(f"{file.path}, {file.unit} {file.positions[start + error.row]}") from None
        outputs = model.logits(encoded, BATCH_SIZE)
        wrong = np.flatnonzero(~np.isfinite(outputs).all(axis=1))
        if len(wrong):
            place = f"{file.path}, {file.unit} {file.positions[start + int(wrong[0])]}"
            raise StageError(f"{place}: {NO_NUMBER}.", "Publish another model: `dvc repro`.")
        logits.append(outputs)
        lengths.append(encoded.lengths)
        truncated += encoded.truncated
        advance(len(encoded))
    return np.concatenate(logits), np.concatenate(lengths), truncated


def write_errors(path: Path, file: LabelledFile, predictions: Predictions, data: DataParams) -> int:
    """Write the wrong predictions, the most confident first; return their number.

    Of numbers, it writes all rows, the largest error first.
    """
    # rows
    task = predictions.task
    sizes = error_sizes(predictions)
    order = np.argsort(-sizes, kind="stable")
    order = order[predictions.errors[order]]

    # columns: the position, the texts, and what is added to them
    rows = pa.array(order)
    texts = {name: text.take(rows) for name, text in file.texts.items()}
    added = free_names((file.unit, "label", "predicted", error_name(task)), list(texts))
    columns = {added[file.unit]: file.positions.take(rows)}
    columns |= texts
    for name, values in (("label", predictions.labels), ("predicted", predictions.values)):
        columns[added[name]] = pa.array(map(task.value, values[order].tolist()))
    columns[added[error_name(task)]] = pa.array(rounded_numbers(sizes[order], NUMBER_DIGITS))

    # The names of columns are data, too: others wrote the file
    header = [harmless(name) for name in columns]
    lines = []
    for row in pa.table(columns).to_pylist():
        lines.append([cell_text(task, value) for value in row.values()])
    write_csv(path, data, header, lines)
    return len(order)
