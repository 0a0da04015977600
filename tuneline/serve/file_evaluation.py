"""The evaluation of an exported model on labelled rows of a user, and a file of its errors."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.checks.analysis.clusters import cluster_texts
from tuneline.core.params import DataParams, Params
from tuneline.core.runtime.errors import StageError, refusing
from tuneline.core.runtime.terminal import phase, progress
from tuneline.core.stage.records import NUMBER_DIGITS, rounded_numbers
from tuneline.judge.decisions.rule import NO_NUMBER
from tuneline.judge.evaluation.evaluation import evaluate_predictions
from tuneline.judge.evaluation.slices import Slices, function_slices
from tuneline.judge.evaluation.table import ALL_METRICS
from tuneline.judge.metrics.functions import load_metric
from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.table import project_metric
from tuneline.model.tasks.task import Logits
from tuneline.model.tokens.encoding import EncodingError
from tuneline.onnx.exported_model import ExportedModel
from tuneline.page.predictions import error_name, ordered_errors
from tuneline.rows.labelled_file import LabelledFile
from tuneline.rows.proposals.spreadsheet import free_names, harmless, write_csv
from tuneline.serve.program_rows import BATCH_SIZE, WINDOW


class FileEvaluation(NamedTuple):
    """What the predictions for a file are worth.

    Attributes:
        metrics: As the stage ``evaluate`` computes them, without leaks and simple models.
        truncated: Number of rows that are longer than what the model reads.
    """

    predictions: Predictions
    metrics: dict[str, float]
    slices: Slices
    truncated: int


def evaluate_file(
    params: Params, model: ExportedModel, train_metric: str | None, file: LabelledFile
) -> FileEvaluation:
    """Predict the rows of a file, and compute what the stage ``evaluate`` computes for the reported split.

    Args:
        params: The section ``evaluate``, the seed and the similarity of near-duplicates are used.
        model: The model.
        train_metric: ``train.metric`` of its training.
        file: The rows.

    Raises:
        InputError: The tokenizer of the model fails on a row.
    """
    task = model.task
    functions = params.evaluate.metric_functions
    custom = [load_metric("evaluate.metrics", name, task, ALL_METRICS) for name in functions]
    custom_slices = function_slices(params.evaluate, pa.table(file.texts), file.labels, task, str(file.path))
    with progress(f"evaluate: {file.path}", len(file.labels)) as step:
        logits, lengths, truncated = predict_logits(model, file, step.advance)
        phase("independent rows")
        clusters = cluster_texts(list(file.texts.values()), params.validate_.near_duplicate_similarity)
        predictions = Predictions.of_logits(file.labels, logits, task, clusters)
        metrics, slices = evaluate_predictions(
            predictions,
            lengths,
            {},
            deciding=project_metric(task.judged_as, train_metric),
            seed=params.seed,
            custom=custom,
            custom_slices=custom_slices,
        )
    return FileEvaluation(predictions, metrics, slices, truncated)


def predict_logits(
    model: ExportedModel, file: LabelledFile, advance: Callable[[int], None]
) -> tuple[Logits, NDArray[np.int64], int]:
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
                raise error.at(file.place(start + error.row)) from None
        outputs = model.logits(encoded, BATCH_SIZE)
        wrong = np.flatnonzero(~np.isfinite(outputs).all(axis=1))
        if len(wrong):
            place = file.place(start + int(wrong[0]))
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
    task = predictions.task
    order, sizes = ordered_errors(predictions)
    rows = pa.array(order)

    # columns: the position, the texts, and what is added to them
    texts = {name: text.take(rows).to_pylist() for name, text in file.texts.items()}
    added = free_names((file.unit, "label", "predicted", error_name(task)), list(texts))
    columns = {added[file.unit]: file.positions.take(rows).to_pylist(), **texts}
    for name, values in (("label", predictions.labels), ("predicted", predictions.values)):
        columns[added[name]] = [task.text(task.value(value)) for value in values[order].tolist()]
    columns[added[error_name(task)]] = rounded_numbers(sizes, NUMBER_DIGITS).tolist()

    # The names of columns are data, too: others wrote the file
    write_csv(path, data, list(map(harmless, columns)), zip(*columns.values(), strict=True))
    return len(order)
