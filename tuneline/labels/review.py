"""The rows whose labels are probably wrong: models that were trained without a row give it another label.

A row of train is predicted by a linear model of words, fitted to the other folds. For rows of validation and
of the reported split, the scores of that model and of the trained one are averaged, where there is one: they
seldom fail in the same rows.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.analysis.corrections import row_keys
from tuneline.baselines.texts import out_of_fold
from tuneline.core.arrays import Floats
from tuneline.core.tables import LABELS, SplitReader, check_text_columns
from tuneline.labels.label_review import Suspect
from tuneline.params import DataParams, Params
from tuneline.paths import PREDICTIONS, RAW, SPLITS, VALIDATION_PREDICTIONS
from tuneline.predictions.files import read_logits
from tuneline.tasks import Task
from tuneline.tasks.columns import labels_of
from tuneline.tasks.multilabel import HALF
from tuneline.tasks.schemas import read_task
from tuneline.words.label_texts import exact_text

LARGE_RESIDUAL = 3.0
"""Standard deviations of the residuals from which a number is doubtful. Of normal ones, 1 in 370 is."""


@dataclass(frozen=True)
class LabelledRows:
    """Rows of all splits that have a label, one split after the other.

    Attributes:
        labels: Class ids or numbers, shape ``(rows, *label_shape)``.
        splits: Split of each row, shape ``(rows,)``.
        numbers: Number of each row in its split, from 0, shape ``(rows,)``.
    """

    texts: pa.Table
    labels: NDArray[Any]
    splits: NDArray[np.str_]
    numbers: NDArray[np.int64]
    task: Task

    @classmethod
    def read(cls, data: DataParams) -> Self:
        """Read the raw splits."""
        task = read_task(SplitReader.open(RAW, "train", made_by="download").schema)
        tables = []
        labels = []
        splits = []
        numbers = []
        for split in SPLITS:
            raw = SplitReader.open(RAW, split, made_by="download")
            check_text_columns(raw, data.text_columns)
            table = raw.read([*data.text_columns, LABELS])
            values = labels_of(task, table[LABELS])
            labelled = np.flatnonzero(~task.unlabelled(values))
            tables.append(table.select(list(data.text_columns)).take(pa.array(labelled)))
            labels.append(values[labelled])
            splits.append(np.full(len(labelled), split))
            numbers.append(labelled)
        return cls(
            pa.concat_tables(tables),
            np.concatenate(labels),
            np.concatenate(splits),
            np.concatenate(numbers),
            task,
        )


def review_labels(params: Params, max_rows: int) -> tuple[list[Suspect], int, int]:
    """Find labels that are probably wrong.

    Returns:
        The most doubtful rows, the number of rows that get another label, and the number of all rows.
    """
    rows = LabelledRows.read(params.data)
    texts = [column.to_pylist() for column in rows.texts.columns]
    scores = out_of_fold(texts, rows.labels, rows.task, params.seed)
    files: dict[str, Path] = {params.evaluate.split: PREDICTIONS, "validation": VALIDATION_PREDICTIONS}
    for split, path in files.items():
        inside = rows.splits == split
        if split == "train" or not path.exists():
            continue
        predicted = read_logits(path)
        labelled = ~rows.task.unlabelled(predicted.labels)
        # predictions of rows that have changed since say nothing
        has_classes = predicted.task.output_names == rows.task.output_names
        if has_classes and np.array_equal(predicted.labels[labelled], rows.labels[inside]):
            scores[inside] = (scores[inside] + rows.task.scores(predicted.logits[labelled])) / 2

    doubt, proposed, confidence = _doubts(rows, scores)
    doubtful = np.flatnonzero(doubt)
    chosen = doubtful[np.argsort(-doubt[doubtful], kind="stable")][:max_rows]
    keys = row_keys([column.combine_chunks() for column in rows.texts.take(pa.array(chosen)).columns])
    suspects = []
    for row, key in zip(chosen.tolist(), keys.to_pylist(), strict=True):
        own_split = str(rows.splits[row])
        suspects.append(
            Suspect(
                key,
                own_split,
                tuple(column[row] for column in texts),
                exact_text(rows.task, rows.labels[row]),
                exact_text(rows.task, proposed[row]),
                float(confidence[row]),
                f"{own_split} row {rows.numbers[row]}",
            )
        )
    return suspects, len(doubtful), len(rows.labels)


def _doubts(rows: LabelledRows, scores: Floats) -> tuple[Floats, NDArray[Any], Floats]:
    """Return how doubtful the label of each row is, what is proposed, and with which probability.

    A row is not doubtful, 0, if the models give it the same label.
    """
    if not rows.task.has_classes:
        predicted = scores[:, 0]
        residuals = np.abs(rows.labels - predicted)
        large = residuals > LARGE_RESIDUAL * np.sqrt(np.mean(residuals**2))
        nearer = np.searchsorted(np.sort(residuals), residuals) / len(residuals)
        return np.where(large, residuals, 0.0), predicted, nearer

    if rows.task.one_class:
        proposed = scores.argmax(axis=1)
        confidence = scores.max(axis=1)
        is_other = proposed != rows.labels
        doubt = 1 - scores[np.arange(len(scores)), rows.labels]
    else:
        proposed = (scores > HALF).astype(np.int8)
        is_other = (proposed != rows.labels).any(axis=1)
        doubt = np.where(rows.labels == 1, 1 - scores, scores).max(axis=1)  # of the most doubtful label
        confidence = doubt
    return np.where(is_other, doubt, 0.0), proposed, confidence
