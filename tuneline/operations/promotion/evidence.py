"""What the gate compares: predictions of two models for the same rows, and what a candidate must not lose."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.core.params.data import DataParams
from tuneline.core.params.loading import load_params, read_yaml
from tuneline.core.paths import PARAMS, PREDICTIONS, RAW, VALIDATION_PREDICTIONS
from tuneline.core.repository.dvc import read_lock
from tuneline.core.repository.git import lock_at
from tuneline.core.repository.programs import ProgramError
from tuneline.core.repository.promoted_models import ModelRepository
from tuneline.core.repository.registry import Version
from tuneline.core.repository.worktrees import fetched_files
from tuneline.core.runtime.errors import DataError, StageError
from tuneline.core.stage.tables import SplitReader, read_table
from tuneline.core.stage.texts import same_text_keys
from tuneline.judge.evaluation.slices import RowSlice, label_slices
from tuneline.judge.metrics.predictions import Predictions, read_predictions
from tuneline.judge.metrics.table import primary_metric
from tuneline.model.tasks import Task
from tuneline.model.tasks.columns import encoded_predictions
from tuneline.model.tasks.task import Labels
from tuneline.operations.criteria import Criterion
from tuneline.operations.experiments.paired import PairedComparison
from tuneline.operations.runs.pipeline import Pipeline
from tuneline.rows.reading.formats import ENDINGS, data_input
from tuneline.rows.reading.labelled import LabelledColumns, labelled_rows
from tuneline.rows.reading.rows import LEAVE_OUT, BadRows
from tuneline.rows.reading.tables import open_table
from tuneline.rows.splits.files import source_folder

VALIDATION = "validation"
"""Name of the split that chooses epochs, thresholds and temperatures."""
LABEL = "label"
"""Name by which ``promotion.guards`` means the class of a row."""
FALSE_STOP = 0.05
"""Probability that a candidate which loses no slice is stopped by one of them."""
MOST_NAMED = 3
"""Slices that lose and are named, the largest losses first."""


@dataclass(frozen=True)
class PairedPredictions:
    """Predictions of two models for the rows of one split of the candidate.

    Attributes:
        candidate: Predictions of the candidate.
        production: Predictions of the model in production; ``None`` if there is none.
        incomparable: Reason why the model in production cannot predict these rows; ``None`` if it can.
    """

    candidate: Predictions
    production: Labels | None
    incomparable: str | None = None


def reported_split(root: Path) -> str:
    """Return the name of the split that a checkout reports its metrics on."""
    params = read_yaml(root / PARAMS) or {}
    return str(params.get("evaluate", {}).get("split", "test"))


def paired_predictions(
    pipeline: Pipeline, root: Path, production: Version | None, path: Path = PREDICTIONS
) -> PairedPredictions:
    """Return the predictions of both models for the rows of the candidate's reported split, or of validation.

    If both runs have the same raw splits, byte for byte, production's predictions are those that its own run
    wrote. Else production's ONNX model predicts the candidate's rows. If it cannot (its text columns are
    missing, for example), the result says why, and the candidate is not promoted.

    Args:
        pipeline: The candidate's.
        root: The repository.
        production: The version in production; ``None`` if there is none.
        path: The file that the candidate's run has written.

    Raises:
        DataError: The candidate's predictions are missing.
    """
    checkout = pipeline.programs.cwd
    if not (checkout / path).exists():
        raise DataError(f"{checkout / path} is missing: the promotion gate compares predictions.")
    candidate = read_predictions(checkout / path)
    predictions = PairedPredictions(candidate, None)
    if production is None:
        return predictions

    try:
        theirs = lock_at(root, production.commit)
        ours = read_lock(checkout)
        is_same = theirs.out(str(path)) is not None and theirs.out(str(RAW)) == ours.out(str(RAW))
        if path == PREDICTIONS:
            is_same = is_same and theirs.reported_rows() == ours.reported_rows()
        if is_same:
            file = fetched_files(root, production.commit, str(path))[""]
            values = read_predictions(file).translated(candidate.task).values
        else:
            split = reported_split(checkout) if path == PREDICTIONS else VALIDATION
            values = _predicted(pipeline, root, production, split, candidate.task)
    except ProgramError as error:
        return replace(predictions, incomparable=f"{production.name}: {error.reason}")
    except StageError as error:
        return replace(predictions, incomparable=f"{production.name}: {error}")
    return replace(predictions, production=values)


def validation_predictions(pipeline: Pipeline, root: Path, production: Version) -> PairedPredictions | None:
    """Return the predictions of both models for the candidate's validation rows.

    Returns:
        ``None`` if they are the reported split, or the candidate's run has not predicted them.
    """
    checkout = pipeline.programs.cwd
    if reported_split(checkout) == VALIDATION or not (checkout / VALIDATION_PREDICTIONS).exists():
        return None
    return paired_predictions(pipeline, root, production, VALIDATION_PREDICTIONS)


def _predicted(pipeline: Pipeline, root: Path, production: Version, split: str, task: Task) -> Labels:
    """Let production's model predict a raw split of the candidate."""
    checkout = pipeline.programs.cwd
    column = task.prediction_column
    parts = []
    with ModelRepository(str(root)).files(production) as model:
        for rows in SplitReader.open(checkout / RAW, split, made_by="download").paths:
            target = checkout / ".dvc" / "tmp" / f"{production.name}-{rows.name}"
            command = ["tuneline", "predict", str(rows)]
            command += ["--model", str(model), "--output", str(target), "--plain"]
            message = f"Predicting {rows.name} with {production.name}"
            pipeline.programs.run(command, message, pipeline.on_line)
            parts.append(encoded_predictions(task, read_table(target, [column])[column]))
    return np.concatenate(parts)


def check_guards(
    checkout: Path, predictions: PairedPredictions, margins: Mapping[str, float]
) -> list[Criterion]:
    """Compare two models on the slices of the rows that ``promotion.guards`` names.

    A slice stops a candidate that loses more than its margin and more than chance explains. A slice without
    rows stops it as well.

    Raises:
        DataError: The data have no such column.
    """
    slices = {key: list(_slices(checkout, predictions, key)) for key in margins}
    level = FALSE_STOP / max(sum(map(len, slices.values())), 1)
    criteria = []
    for key, row_slices in slices.items():
        criteria.append(_slice_criterion(predictions, key, row_slices, margins[key], level))
    return criteria


def _slice_criterion(
    predictions: PairedPredictions, key: str, slices: list[RowSlice], margin: float, level: float
) -> Criterion:
    losses = []
    for row_slice in slices:
        loss = _loss(predictions, row_slice, margin, level)
        if loss is not None:
            losses.append(loss)
    losses.sort()

    if losses:
        value = "; ".join(text for _, text in losses[:MOST_NAMED])
    elif slices:
        value = f"none of {len(slices)} loses more"
    else:
        value = "no rows of it in the split"
    limit = f"no loss of more than {margin:g}, beyond chance (p <= {level:.2g})"
    return Criterion(f"slice {key}", value, limit, met=bool(slices) and not losses)


def _loss(
    predictions: PairedPredictions, row_slice: RowSlice, margin: float, level: float
) -> tuple[float, str] | None:
    """Return the difference in a slice, and the loss in words; ``None`` within margin and chance."""
    if predictions.production is None:
        return None
    candidate = predictions.candidate.take(row_slice.rows)
    production = predictions.production[row_slice.rows]
    metric = primary_metric(candidate.task.judged_as)
    compared = PairedComparison.of(candidate, production, [metric], level=1 - 2 * level)
    difference = compared.differences[metric.name]

    # more than chance: the test is one-sided
    if compared.test is not None:
        is_significant = compared.test.p / 2 <= level
    else:
        is_significant = difference.high < 0
    if difference.value >= -margin or not is_significant:
        return None
    text = (
        f"{row_slice.by} {row_slice.name!r} loses {-difference.value:.4f} {metric.name}"
        f" ({difference.second:.4f} to {difference.first:.4f} on {len(candidate):,} rows)"
    )
    return difference.value, text


def _slices(root: Path, predictions: PairedPredictions, key: str) -> Iterator[RowSlice]:
    """Yield the slices that a key of ``promotion.guards`` names."""
    column, _, value = key.partition(":")
    value = value.strip()
    if column == LABEL:
        for row_slice in label_slices(predictions.candidate):
            if value in ("", row_slice.name):
                yield row_slice
        return

    groups = column_of_rows(root, reported_split(root), column)
    names = [value] if value else sorted(set(groups.tolist()) - {""})
    for name in names:
        members = np.flatnonzero(groups == name)
        if len(members):
            yield RowSlice(column, name, members)


def column_of_rows(root: Path, split: str, column: str) -> NDArray[Any]:
    """Return the value of a column of the data for each row of a raw split, as text; empty where it has none.

    The raw splits have texts and labels only, so the rows are found in the files of ``data.path`` by their
    texts. Of several rows with the same texts, the first counts.

    Raises:
        DataError: The data are no files under ``data/source``, or none has the column.
    """
    data = load_params(root / PARAMS).data
    values: dict[int, str] = {}
    if data.source == "files":
        for path in sorted((root / source_folder(data.path)).rglob("[!.]*")):
            if path.name.endswith(ENDINGS):
                for key, value in _column_of_file(path, data, column):
                    values.setdefault(key, value)
    if not values:
        raise DataError(
            f"The data have no column {column!r}, which promotion.guards in conf/flows.yaml names.",
            f"Name a column of the files of data.path, or {LABEL}.",
        )

    # the rows of the split, in their order
    raw = SplitReader.open(root / RAW, split, made_by="download").read(list(data.text_columns))
    keys = same_text_keys([raw[name].combine_chunks() for name in data.text_columns])
    return np.array([values.get(key, "") for key in keys.tolist()], dtype=object)


def _column_of_file(path: Path, data: DataParams, column: str) -> Iterator[tuple[int, str]]:
    """Yield the key of the texts of each row of a file, and its value of a column."""
    # Stage download has decided about bad rows.
    columns = replace(LabelledColumns.of(data, [column], [column]), policy=LEAVE_OUT)
    source = data_input(path, data.files)
    with open_table(source) as table:
        if column not in table.names():
            return
        for batch in labelled_rows(table, columns, BadRows(str(path), source.unit, LEAVE_OUT)):
            keys = same_text_keys(batch.columns[: len(columns.texts)])
            values: pa.Array = batch.columns[len(columns.texts)]
            for key, value in zip(keys.tolist(), values.to_pylist(), strict=True):
                if value:
                    yield key, value
