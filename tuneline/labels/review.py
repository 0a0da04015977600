"""The rows whose labels are probably wrong.

They are found by out-of-fold predictions, confident learning, and near-identical rows.
"""

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline import paths
from tuneline.analysis.corrections import row_keys
from tuneline.analysis.text import normalized, same_text_keys, words
from tuneline.baselines.texts import majority_model
from tuneline.core.hashes import content_key, file_hash, split_hash
from tuneline.core.pipeline_code import ROOT
from tuneline.core.provenance import stage_provenance
from tuneline.core.records import Metrics, Timing
from tuneline.core.stage import require
from tuneline.core.tables import (
    LABELS,
    ROW_GROUP,
    SplitReader,
    check_text_columns,
    write_table,
)
from tuneline.labels.confident_learning import likely_errors, likely_set_errors
from tuneline.labels.label_review import Suspect
from tuneline.metrics.scores import compute_metric
from tuneline.metrics.table import METRIC_TABLE, primary_metric
from tuneline.params import DataParams, Params
from tuneline.params.params_file import Changes, changed
from tuneline.paths import RAW, SPLITS, TOKENIZED
from tuneline.predictions.files import read_logits, write_baselines
from tuneline.runtime.atomic_files import replace_file
from tuneline.runtime.errors import DataError, StageError
from tuneline.runtime.locks import BusyError, locked
from tuneline.runtime.processes import PARENT, ending, start
from tuneline.runtime.terminal import progress, say
from tuneline.tasks import Task
from tuneline.tasks.columns import labels_of
from tuneline.tasks.multilabel import HALF
from tuneline.tasks.schemas import read_task
from tuneline.words.label_texts import exact_text, label_text
from tuneline.words.titles import title_of

RowNumbers = NDArray[np.int64]
VALIDATED = 10
"""One of so many rows that are not held out is for validation."""


@dataclass(frozen=True)
class LabelledRows:
    """Rows of all splits, one split after the other.

    Attributes:
        labels: Class ids or numbers, shape ``(rows, *label_shape)``.
        splits: Split of each row, as an index into ``SPLITS``, shape ``(rows,)``.
        numbers: Number of each row in the file of its split, from 0, shape ``(rows,)``.
    """

    texts: pa.Table
    labels: NDArray[Any]
    splits: NDArray[np.int8]
    numbers: RowNumbers
    schema: Task

    @classmethod
    def read(cls, data: DataParams) -> Self:
        """Read the raw splits without rows that have no label; refuse splits with different classes."""
        train = SplitReader.open(RAW, "train", made_by="download")
        schema = read_task(train.schema)
        tables = []
        labels = []
        splits = []
        numbers = []
        for index, split in enumerate(SPLITS):
            raw = SplitReader.open(RAW, split, made_by="download")
            if read_task(raw.schema) != schema:
                raise DataError(
                    f"{raw.name} has other classes than {train.name}.", "Run `dvc repro download`."
                )
            check_text_columns(raw, data.text_columns)

            table = raw.read([*data.text_columns, LABELS])
            values = labels_of(schema, table[LABELS])
            labelled = np.flatnonzero(~schema.unlabelled(values))
            tables.append(table.select(list(data.text_columns)).take(pa.array(labelled)))
            labels.append(values[labelled])
            splits.append(np.full(len(labelled), index, np.int8))
            numbers.append(labelled)

        if not any(map(len, numbers)):
            raise DataError(f"No row in {RAW} has a label.", "Check data.label_column and data.splits.")
        return cls(
            pa.concat_tables(tables),
            np.concatenate(labels),
            np.concatenate(splits),
            np.concatenate(numbers),
            schema,
        )

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.labels)


@dataclass(frozen=True)
class Folds:
    """A division of rows into ``count`` folds.

    Equal texts are in the same one, and each class is divided evenly.

    Attributes:
        positions: Position of each row in an order from which every fold takes each ``count``-th row, shape
            ``(rows,)``.
    """

    positions: RowNumbers
    count: int

    @classmethod
    def of(cls, rows: LabelledRows, count: int) -> Self:
        """Divide rows by a hash of their texts within each class, or among near numbers."""
        batches = rows.texts.to_batches(max_chunksize=ROW_GROUP)
        keys = np.concatenate([same_text_keys(batch.columns) for batch in batches])
        # Equal texts are one unit; units are ordered by label, so that each fold gets its part of each class
        units, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        positions = np.empty(len(units), np.int64)
        codes = rows.schema.codes(rows.labels[first])
        positions[np.lexsort((units, codes))] = np.arange(len(units))
        return cls(positions[inverse], count)

    def held_out(self, fold: int) -> RowNumbers:
        """Return the rows of a fold, ascending."""
        return np.flatnonzero(self.positions % self.count == fold)

    def others(self, fold: int) -> tuple[RowNumbers, RowNumbers]:
        """Return the rows that a model of a fold is trained on, and the rows that it is validated on."""
        is_read = self.positions % self.count != fold
        is_validated = self.positions // self.count % VALIDATED == 0
        return np.flatnonzero(is_read & ~is_validated), np.flatnonzero(is_read & is_validated)


FOLDS = paths.REPORTS / "labels" / "folds"
# The stages ``train`` and ``evaluate`` of the pipeline run once for each fold, in a project of its own. The
# logits of a finished fold are kept, so a command that was interrupted trains only the folds that are
# missing, and the interrupted fold resumes from its checkpoint. Another seed, model, training, code or data
# begins again.
LINKED = (Path("conf"), paths.PROJECT, paths.BASE, paths.TOKENIZER)
"""What the stages read and no fold changes."""
CHANGES: Changes = {
    "evaluate.split": "test",
    "evaluate.metrics": None,
    "evaluate.behaviour": None,
    "run.trackers": [],
}
"""Parameters of a fold's project: the rows that are held out are its test split."""


def trained_logits(rows: LabelledRows, folds: Folds) -> NDArray[np.float32]:
    """Return the logits of each row from a model of the pipeline that was trained without it.

    Returns:
        Array of shape ``(rows, outputs)``.

    Raises:
        StageError: The data is not tokenized, a stage fails, or another process trains folds here.
    """
    home = FOLDS / _key(folds)
    results = [home / f"fold-{fold + 1}.npy" for fold in range(folds.count)]
    FOLDS.mkdir(parents=True, exist_ok=True)
    try:
        with locked(FOLDS, wait=0, required=False):
            for folder in FOLDS.glob("*"):
                if folder != home:  # of other parameters, code or data
                    shutil.rmtree(folder, ignore_errors=True)
            for fold, result in enumerate(results):
                if not result.exists():
                    _predict_fold(result, rows, folds, fold)
    except BusyError:
        raise StageError(
            "Another `tuneline labels review` trains folds in this project.", "Wait for its end."
        ) from None

    logits = np.empty((len(rows), rows.schema.outputs), np.float32)
    for fold, result in enumerate(results):
        logits[folds.held_out(fold)] = np.load(result)
    return logits


def _key(folds: Folds) -> str:
    """Return a hash of all that determines the logits: parameters, code, data, base weights and folds."""
    base = file_hash(require(paths.BASE_RECORD, made_by="base"))
    data = [split_hash(SplitReader.open(TOKENIZED, split, made_by="tokenize").paths) for split in SPLITS]
    training = stage_provenance("train", ()).model_dump(mode="json")
    return content_key(training, base, data, folds.count, folds.positions.tolist())


def _predict_fold(result: Path, rows: LabelledRows, folds: Folds, fold: int) -> None:
    """Train and predict a fold, and keep its logits."""
    title = f"Fold {fold + 1} of {folds.count}"
    started = time.monotonic()
    train, validation = folds.others(fold)
    held_out = folds.held_out(fold)
    say(
        f"{title}: {len(train):,} rows to train on, {len(validation):,} to validate, {len(held_out):,} to"
        " predict."
    )

    # the stages
    project = result.with_suffix("")  # beside the result, so that the next start finds its checkpoint
    try:
        _write_project(project, rows, {"train": train, "validation": validation, "test": held_out})
        if not (project / paths.CLASSIFIER).exists():
            _run("stages.train.launch", project)
        _run("stages.evaluate", project)
    except KeyboardInterrupt:
        say(
            f"{title} is incomplete: the same command resumes it. The folds before it are kept in"
            f" {result.parent}.",
            error=True,
        )
        raise

    # the logits, and only then the end of the project: until then the fold can be resumed
    predicted = read_logits(project / paths.PREDICTIONS, len(held_out))
    with replace_file(result) as partial, partial.open("wb") as file:
        np.save(file, predicted.logits)
    shutil.rmtree(project)
    say(f"{title} took {time.monotonic() - started:,.0f} s.")


def _write_project(project: Path, rows: LabelledRows, splits: Mapping[str, RowNumbers]) -> None:
    """Write the data and parameters that the stages read.

    An earlier start of the same fold wrote the same.
    """
    for path in LINKED:
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not (project / path).is_symlink():
            (project / path).symlink_to(path.absolute())

    (project / RAW).mkdir(parents=True, exist_ok=True)
    (project / paths.PARAMS).write_text(changed(paths.PARAMS, CHANGES), encoding="utf-8")
    for folder in (RAW, TOKENIZED):
        table = _read_all(folder, rows)
        for split, chosen in splits.items():
            write_table(table.take(pa.array(chosen)), paths.split_file(project / folder, split))
    _write_majority(project, rows.schema, len(splits["test"]))


def _write_majority(project: Path, labels: Task, rows: int) -> None:
    """Write what the majority predicts, because ``evaluate`` compares with simple models.

    No other simple model is needed to find wrong labels.
    """
    predict = majority_model(SplitReader.open(project / RAW, "train", made_by="download"), labels)
    empty_texts = [[""] * rows]
    predicted = predict(empty_texts)

    path = paths.split_file(project / paths.BASELINES, "test")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_baselines(path, labels, list(predicted), [predicted])


def _read_all(folder: Path, rows: LabelledRows) -> pa.Table:
    """Read the labelled rows of all splits, in the order of ``rows``."""
    made_by = "download" if folder == RAW else "tokenize"
    tables = []
    for index, split in enumerate(SPLITS):
        reader = SplitReader.open(folder, split, made_by=made_by)
        table = reader.read()
        is_of_split = rows.splits == index
        numbers = rows.numbers[is_of_split]
        labels = rows.labels[is_of_split]
        has_rows = len(table) > numbers.max(initial=-1)
        if not has_rows or not np.array_equal(labels_of(rows.schema, table[LABELS])[numbers], labels):
            raise DataError(
                f"{reader.name} does not have the rows and labels of {RAW}.", "Run `dvc repro tokenize`."
            )
        tables.append(table.take(pa.array(numbers)))
    return pa.concat_tables(tables)


def _run(module: str, project: Path) -> None:
    """Run a stage in a fold's project.

    An interruption of this process interrupts the stage, which saves its state first.
    """
    # The code of this checkout comes first, whatever is installed
    search_path = str(ROOT)
    if os.environ.get("PYTHONPATH"):
        search_path += os.pathsep + os.environ["PYTHONPATH"]
    environment = os.environ | {"PYTHONPATH": search_path, PARENT: str(os.getpid())}

    command = [sys.executable, "-m", module]
    with ending(start(command, cwd=project, env=environment), seconds=None) as stage:
        status = stage.wait()
    if status == os.EX_TEMPFAIL:  # the training was interrupted, and can be resumed
        raise KeyboardInterrupt
    if status:
        hint = "Its messages are above. Correct the cause, and run the same command again."
        raise StageError(f"{module} ended with exit status {status} in {project}.", hint)


SIMILARITY = 0.5
"""Jaccard similarity of the sets of word pairs. One word in ten replaced leaves about 0.67."""
MAX_SIMILAR = 3
"""Similar rows per row."""
HASHED_FEATURES = 1 << 20
"""Hashes of word pairs: two of the pairs of a row have the same hash once in thousands of rows."""


def similar_rows(rows: LabelledRows, chosen: RowNumbers) -> list[list[tuple[float, int]]]:
    """Return the most similar rows of each chosen row, at most ``MAX_SIMILAR``, the most similar first.

    Returns:
        For each chosen row, pairs of the similarity and the position of the similar row.
    """
    if not len(chosen):
        return []
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing = HashingVectorizer(
        analyzer=_word_pairs, n_features=HASHED_FEATURES, binary=True, norm=None, alternate_sign=False
    )
    chosen_pairs = hashing.transform(_words(rows.texts.take(pa.array(chosen))))
    sizes = np.diff(chosen_pairs.indptr)
    similar: list[list[tuple[float, int]]] = [[] for _ in chosen]

    # In batches: the matrix of all rows by the chosen ones would not fit into memory
    for first in range(0, len(rows), ROW_GROUP):
        batch = hashing.transform(_words(rows.texts.slice(first, ROW_GROUP)))
        shared = (batch @ chosen_pairs.T).tocoo()
        union = np.diff(batch.indptr)[shared.row] + sizes[shared.col] - shared.data
        similarity = shared.data / union
        row_numbers = shared.row.astype(np.int64) + first
        kept = np.flatnonzero((similarity >= SIMILARITY) & (row_numbers != chosen[shared.col]))

        indices = shared.col[kept].tolist()
        for index, row, value in zip(
            indices, row_numbers[kept].tolist(), similarity[kept].tolist(), strict=True
        ):
            pairs = [*similar[index], (value, row)]
            pairs.sort(key=lambda pair: (-pair[0], pair[1]))
            similar[index] = pairs[:MAX_SIMILAR]
    return similar


def _words(texts: pa.Table) -> Sequence[Sequence[str]]:
    """Return the words of each row, of all its text columns."""
    columns = [normalized(column.combine_chunks()) for column in texts.columns]
    rows: list[list[str]] = words(columns).to_pylist()
    return rows


def _word_pairs(row: Sequence[str]) -> list[str]:
    return [f"{first} {second}" for first, second in pairwise(row)]


Judge = Literal["linear", "train"]
QUICK_SECONDS = 600
"""How long the models of all folds may take to train, as far as known, without being asked for."""
WEAK = 0.1
"""Share of rows with another predicted label, from which most doubts are mistakes of the models."""
LARGE_RESIDUAL = 3.0
"""Standard deviations of the residuals from which a number is doubtful. Of normal ones, 1 in 370 is."""


@dataclass(frozen=True)
class LabelReview:
    """Rows to look at, with a metric of the out-of-fold predictions by the labels as they are.

    Attributes:
        rows: Number of labelled rows.
        doubtful: Number of rows whose labels are probably wrong.
        metric: Name of the metric for people.
        agreement: Value of the metric.
        suspects: The most doubtful rows.
        advice: How far the review can be believed; empty if that is not known.
    """

    rows: int
    doubtful: int
    metric: str
    agreement: float
    suspects: list[Suspect]
    advice: str = ""


def review_labels(params: Params, model: Judge, folds: int, max_rows: int) -> LabelReview:
    """Predict every labelled row with a model that was trained without it, and find labels that are wrong.

    The mean of two kinds of model is better than either: they seldom fail in the same rows. On 10,000 tickets
    with 300 wrong labels, and 3 folds, 91 % of the first 300 rows are wrong, instead of 85 % by the linear
    model alone and 70 % by the trained one alone.
    """
    rows = LabelledRows.read(params.data)
    if rows.schema.has_classes:
        outputs = _class_probabilities(rows, folds, params.seed)
        review = _review_classes if rows.schema.one_class else _review_sets
    else:
        outputs = _numbers(rows, folds)
        review = _review_numbers
    if model != "linear":
        logits = trained_logits(rows, Folds.of(rows, folds))
        outputs = (rows.schema.scores(logits) + outputs) / 2  # shape (rows, classes), or (rows, 1)
    return review(rows, outputs, max_rows)


def _review_classes(rows: LabelledRows, outputs: NDArray[np.float64], max_rows: int) -> LabelReview:
    """Find labels that are probably wrong by confident learning.

    Args:
        rows: The labelled rows.
        outputs: Out-of-fold probabilities, shape ``(rows, classes)``.
        max_rows: Largest number of suspects.
    """
    doubtful = likely_errors(rows.labels, outputs)
    predicted = outputs.argmax(axis=1)
    chosen = doubtful[:max_rows]
    proposed = [label_text(rows.schema, label) for label in predicted[chosen]]
    suspects = _suspects(rows, chosen, proposed, outputs[chosen, predicted[chosen]])
    agreement = _agreement(rows, predicted)
    return LabelReview(len(rows), len(doubtful), "accuracy", agreement, suspects, trust(len(rows), agreement))


def _review_sets(rows: LabelledRows, outputs: NDArray[np.float64], max_rows: int) -> LabelReview:
    """Find sets of labels that are probably wrong, by confident learning of each label.

    Args:
        rows: The labelled rows.
        outputs: Out-of-fold probabilities, shape ``(rows, labels)``.
        max_rows: Largest number of suspects.
    """
    doubtful, is_wrong = likely_set_errors(rows.labels, outputs)
    chosen = doubtful[:max_rows]
    corrected = np.where(is_wrong, 1 - rows.labels, rows.labels)
    proposed = [exact_text(rows.schema, row) for row in corrected[chosen].tolist()]
    # of the decisions that the proposal changes, the surest
    probability = np.where(rows.labels == 1, 1 - outputs, outputs)
    confidence = np.where(is_wrong, probability, 0.0).max(axis=1)[chosen]
    suspects = _suspects(rows, chosen, proposed, confidence)

    predicted = (outputs > HALF).astype(np.int8)
    metric = primary_metric(rows.schema.metric_kind)
    agreement = _agreement(rows, predicted)
    same_sets = 1 - float(rows.schema.errors(predicted, rows.labels).mean())
    advice = trust(len(rows), same_sets)
    return LabelReview(len(rows), len(doubtful), title_of(metric.name), agreement, suspects, advice)


def choose_model(folds: int) -> tuple[Judge, str]:
    """Return the model for a review, and why.

    It is the pipeline's where the last evaluation shows that it is better than a linear one. A model that
    would take more than ``QUICK_SECONDS`` to train once per fold is only recommended.
    """
    metrics = Metrics.read_values(paths.METRICS / "evaluate.json")
    better = [metric for metric in METRIC_TABLE if metrics.get(f"{metric}_over_tfidf_low", 0) > 0]
    timing = Timing.read_if_valid(paths.TIMING / "train.json")
    if not better or timing is None:
        reason = (
            "A linear model is a quick look. --model train asks the model of the pipeline, too, which is"
            " trained once per fold."
        )
        return "linear", reason

    metric = better[0]
    reason = (
        f"The pipeline's model is better than a linear one ({metric} {metrics[metric]:.3f} and"
        f" {metrics[f'tfidf_{metric}']:.3f})"
    )
    seconds = folds * timing.values.get("seconds", 0.0)
    if seconds > QUICK_SECONDS:
        minutes = seconds / 60
        return "linear", f"{reason}: --model train trains it once per fold, in about {minutes:.0f} minutes."
    return (
        "train",
        f"{reason}, so it is trained once per fold, in about {seconds:.0f} s; --model linear does without.",
    )


def trust(rows: int, accuracy: float) -> str:
    """Return how far a review of classes can be believed.

    What a model gets wrong looks like a wrong label.
    """
    mistaken = round((1 - accuracy) * rows)
    if mistaken <= WEAK * rows:
        return (
            f"Another label was predicted for {mistaken:,} rows in all: most of the first doubts are"
            " justified, fewer near the end."
        )
    return (
        f"Another label was predicted for {mistaken:,} rows in all, so these models are often wrong"
        " themselves: expect that most of the doubted labels are right, look at the first ones, and stop"
        " where they are."
    )


def _class_probabilities(rows: LabelledRows, folds: int, seed: int) -> NDArray[np.float64]:
    """Return the probabilities ``(rows, classes)`` by linear models that were trained without the row."""
    from tuneline.baselines.texts import out_of_fold

    with progress("labels review: linear model"):
        texts = [column.to_pylist() for column in rows.texts.columns]
        return out_of_fold(texts, rows.labels, rows.schema, folds=folds, seed=seed)


def _numbers(rows: LabelledRows, folds: int) -> NDArray[np.float64]:
    """Return the numbers ``(rows, 1)`` by linear models that were trained without the row."""
    from tuneline.baselines.texts import predict_with_tfidf

    division = Folds.of(rows, folds)
    table = rows.texts.append_column(LABELS, pa.array(rows.labels))
    predicted = np.empty((len(rows), 1))
    with progress("labels review: linear model") as step:
        for fold in range(folds):
            step.detail = f"fold {fold + 1} of {folds}"
            held_out = division.held_out(fold)
            # A linear model needs no validation rows
            fitted = np.concatenate(division.others(fold))
            texts = [column.to_pylist() for column in rows.texts.take(pa.array(held_out)).columns]
            predicted[held_out, 0] = predict_with_tfidf(table.take(pa.array(fitted)), texts, rows.schema)
    return predicted


def _review_numbers(rows: LabelledRows, outputs: NDArray[np.float64], max_rows: int) -> LabelReview:
    """Rank numbers by their residuals: confident learning is for classes.

    Args:
        rows: The labelled rows.
        outputs: Out-of-fold predictions, shape ``(rows, 1)``.
        max_rows: Largest number of suspects.
    """
    predicted = outputs[:, 0]
    residuals = np.abs(rows.labels - predicted)
    root_mean_square = np.sqrt(np.mean(residuals**2))
    doubtful = int((residuals > LARGE_RESIDUAL * root_mean_square).sum())
    chosen = np.argsort(-residuals, kind="stable")[: min(max_rows, doubtful)]

    share_nearer = np.searchsorted(np.sort(residuals), residuals[chosen]) / len(rows)
    proposed = [f"{number:.6g}" for number in predicted[chosen]]
    suspects = _suspects(rows, chosen, proposed, share_nearer)
    return LabelReview(len(rows), doubtful, "Pearson's r", _agreement(rows, predicted), suspects)


def _agreement(rows: LabelledRows, predicted: NDArray[Any]) -> float:
    return compute_metric(primary_metric(rows.schema.metric_kind), rows.labels, predicted)


def _suspects(
    rows: LabelledRows, chosen: RowNumbers, proposed: Sequence[str], confidence: NDArray[np.float64]
) -> list[Suspect]:
    """Return the chosen rows with their proposed labels and similar rows."""
    texts = rows.texts.take(pa.array(chosen)).combine_chunks()
    keys = row_keys([column.combine_chunks() for column in texts.columns]).to_pylist()
    with progress("labels review: similar rows"):
        similar = [_describe(rows, pairs) for pairs in similar_rows(rows, chosen)]

    columns = [column.to_pylist() for column in texts.columns]
    texts_of_rows = list(zip(*columns, strict=True))
    suspects = []
    for index, row in enumerate(chosen.tolist()):
        suspects.append(
            Suspect(
                keys[index],
                SPLITS[rows.splits[row]],
                texts_of_rows[index],
                _label(rows, row),
                proposed[index],
                float(confidence[index]),
                similar[index],
            )
        )
    return suspects


def _describe(rows: LabelledRows, similar: Sequence[tuple[float, int]]) -> str:
    """Return the similar rows of a row as text: split, row number, label and similarity of each."""
    descriptions = []
    for value, row in similar:
        place = f"{SPLITS[rows.splits[row]]} row {rows.numbers[row]}"
        descriptions.append(f"{place}: {_label(rows, row)} ({value:.0%} alike)")
    return "; ".join(descriptions)


def _label(rows: LabelledRows, row: int) -> str:
    return exact_text(rows.schema, rows.labels[row])
