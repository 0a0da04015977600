"""The rows whose labels are probably wrong, and the file in which people write the right ones.

Models that were trained without a row give it another label. A row of train is predicted by a linear model of
words, fitted to the other folds. For rows of validation and of the reported split, the scores of that model
and of the trained one are averaged, where there is one: they seldom fail in the same rows.
``tuneline labels apply`` reads the file.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.core.params import DataParams, Params
from tuneline.core.paths import PREDICTIONS, RAW, SPLITS, VALIDATION_PREDICTIONS
from tuneline.core.runtime.errors import InputError, StageError
from tuneline.core.stage.tables import LABELS, SplitReader, check_text_columns
from tuneline.judge.metrics.predictions import read_predictions
from tuneline.model.linear.texts import out_of_fold
from tuneline.model.tasks import Task
from tuneline.model.tasks.columns import labels_of, read_task
from tuneline.model.tasks.task import Floats
from tuneline.rows.proposals.spreadsheet import ENCODING, free_names, write_csv
from tuneline.rows.reading.limits import ANY_CELL
from tuneline.rows.splits.corrections import row_keys

KEY = "key"
SPLIT = "split"
LABEL = "label"
PROPOSED = "proposed"
CONFIDENCE = "confidence"
PLACE = "place"
CORRECT = "correct"
ROLES = (KEY, SPLIT, LABEL, PROPOSED, CONFIDENCE, PLACE, CORRECT)
DELIMITERS = ",;\t"
"""A spreadsheet may save the file with another one than was written."""
LARGE_RESIDUAL = 3.0
"""Standard deviations of the residuals from which a number is doubtful. Of normal ones, 1 in 370 is."""


class Suspect(NamedTuple):
    """A row whose label may be wrong.

    Attributes:
        key: Hash of its texts, which finds the row again: ``row_keys``.
        split: Its split; empty if it is not known.
        proposed: Class name or number that models predict that were trained without the row.
        confidence: Probability of the proposed class; NaN in a filled-in review, of which it is not read.
        place: Where the row is.
    """

    key: str
    split: str
    texts: tuple[str, ...]
    label: str
    proposed: str
    confidence: float
    place: str


def write_review(path: Path, data: DataParams, suspects: Sequence[Suspect]) -> None:
    """Write the review, with an empty column ``correct``."""
    # A text column of the project may have the name of a role, which gets another name then.
    names = free_names(ROLES, data.text_columns)
    header: list[object] = [names[KEY], names[SPLIT], *data.text_columns]
    header += [names[role] for role in (LABEL, PROPOSED, CONFIDENCE, PLACE, CORRECT)]

    rows = []
    for suspect in suspects:
        row: list[object] = [suspect.key, suspect.split, *suspect.texts]
        row += [suspect.label, suspect.proposed, round(suspect.confidence, 4), suspect.place, ""]
        rows.append(row)
    write_csv(path, data, header, rows)


def read_filled(path: Path, data: DataParams) -> list[tuple[int, Suspect, str]]:
    """Read the rows in which ``correct`` is filled in.

    Returns:
        For each of them its number in the file, from 1 after the header, the row, and what was filled in.

    Raises:
        InputError: The file is not a review, or nothing is filled in.
    """
    names = free_names(ROLES, data.text_columns)
    csv.field_size_limit(ANY_CELL)
    filled = []
    try:
        with path.open(encoding=ENCODING, newline="") as file:
            header = file.readline()
            file.seek(0)
            reader = csv.DictReader(file, delimiter=max(DELIMITERS, key=header.count), restval="")
            for name in (*names.values(), *data.text_columns):
                if name not in (reader.fieldnames or ()):
                    raise InputError(f"{path}: no column {name!r} (of `tuneline labels review`).")
            for number, row in enumerate(reader, 1):
                correct = row[names[CORRECT]].strip()
                if not correct:
                    continue
                texts = tuple(row[name] for name in data.text_columns)
                place = row[names[PLACE]]
                key = row[names[KEY]].strip()
                split = row[names[SPLIT]].strip()
                label = row[names[LABEL]].strip()
                proposed = row[names[PROPOSED]].strip()
                filled.append((number, Suspect(key, split, texts, label, proposed, np.nan, place), correct))
    except (UnicodeDecodeError, csv.Error, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}.", 'Save it as "CSV UTF-8".') from None
    return filled


def check_replaced(path: Path, data: DataParams) -> None:
    """Refuse to replace a file in which a person has filled in labels, or another file."""
    if not path.exists():
        return
    filled = read_filled(path, data)
    if filled:
        raise StageError(
            f"{path} has {len(filled):,} labels, which would be lost.",
            f"Run `tuneline labels apply {path}`, name another file with --output, or add --force.",
        )


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
        predicted = read_predictions(path, with_logits=True)
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
                rows.task.text(rows.task.value(rows.labels[row])),
                rows.task.text(rows.task.value(proposed[row])),
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

    proposed = rows.task.decide(scores)
    is_other = rows.task.errors(proposed, rows.labels)
    doubt = 1 - rows.task.confidence(scores, rows.labels)  # of several labels, of the most doubtful one
    confidence = doubt
    if rows.task.one_class:
        confidence = rows.task.confidence(scores, proposed)
    return np.where(is_other, doubt, 0.0), proposed, confidence
