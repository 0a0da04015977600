"""The queue: predicted texts to label, in a CSV file that people open in a spreadsheet, and that is read as labelled data afterwards.

A row is uncertain if its two most probable classes are close (margin sampling: Scheffer et al., "Active
Hidden Markov Models for Information Extraction", 2001), and new if many of its words are not common in
training. The two orders are combined by reciprocal rank fusion (Cormack et al., 2009), which needs no common
scale: the first rows of either order come first.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.analysis.similarity import WordSets
from tuneline.analysis.text import EncodedWords, Keys, normalized, same_text_keys, words
from tuneline.cli.init.row_file import open_row_file as open_detected
from tuneline.cli.predict import BATCH_SIZE, WINDOW, refusing
from tuneline.cli.predict.streaming import ModelChoice, good_rows, windows
from tuneline.core.errors import DataError, StageError
from tuneline.core.paths import CHECKS, RAW, REFERENCE_PROFILE, SOURCE
from tuneline.core.tables import LABELS, ROW_GROUP, UNLABELLED
from tuneline.core.terminal import progress, say
from tuneline.params import DataParams
from tuneline.project.scored import ScoredFile, open_archived, scored_files
from tuneline.project.spreadsheet import ENCODING, LONGEST_FIELD, delimiter, free_names, write_csv
from tuneline.readers.files import is_url
from tuneline.readers.inputs import Input, InputColumns, Row, open_rows
from tuneline.readers.labelled import plain_text
from tuneline.readers.layout import detect_layout
from tuneline.readers.rows import ENDINGS, BadRowPolicy, BadRows, listed
from tuneline.reports.checks import Profile, Words
from tuneline.tasks import Classification, Regression

LEFT_OUT = BadRowPolicy("skip", max_share=1.0)
MOST_CHARACTERS = 1 << 28
"""Characters of texts that are kept in memory; no further rows are read beyond them."""


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A predicted row, with its probabilities by class name; a number has none."""

    id: str | None
    texts: tuple[str, ...]
    prediction: str | float
    probabilities: dict[str, float]


def collect_scored_rows(
    outbox: Path, texts: Sequence[str], id_column: str | None, last_rows: int
) -> tuple[list[ScoredRow], list[str]]:
    """Return the last scored rows, those of the latest file first, with an id if there is a column of ids; and why files were left out."""
    found, problems, characters = list[ScoredRow](), list[str](), 0
    columns = InputColumns(tuple(texts), () if id_column is None else (id_column,))
    for scored in scored_files(outbox):
        before = len(found)
        try:
            with open_archived(Path(), scored, columns) as rows:
                for row, prediction in joined(rows, scored_predictions(scored)):
                    if len(found) == last_rows or characters > MOST_CHARACTERS:
                        return found, problems
                    found.append(
                        ScoredRow(
                            plain_text(row.kept[id_column]) if id_column else None, row.texts, *prediction
                        )
                    )
                    characters += row.characters
            if len(found) == before and scored.record.rows:
                problems.append(
                    f"{scored.record.archived}: no row has {' and '.join(map(repr, columns.options))}."
                )
        except DataError as error:
            problems.append(error.problem)
    return found, problems


def predict_first_rows(
    file: Path, model: Path, data: DataParams, id_column: str | None, most: int
) -> list[ScoredRow]:
    """Return the first rows of a file, ``most`` at most, with the predictions that ``tuneline predict`` makes.

    Bad rows are reported, and a column of labels, which is not read.

    Raises:
        InputError: The file cannot be read, or lacks a column.
        StageError: There is no such model, or it reads other columns.
    """
    deployed, found, characters = ModelChoice(model).load_and_warn(), list[ScoredRow](), 0
    texts = data.text_columns
    if tuple(texts) != deployed.text_columns:
        problem = (
            f"{model} was trained on {listed(deployed.text_columns)}, and data.text_columns is"
            f" {listed(texts)}."
        )
        raise StageError(problem, "Run `dvc repro`, or name another model: --model.")
    columns, bad = (
        InputColumns(tuple(texts), () if id_column is None else (id_column,)),
        BadRows(str(file), "row", LEFT_OUT),
    )
    with refusing():
        detected = open_detected(file, detect_layout(file))
    if data.label_column in detected.columns:
        problem = (
            f"{file} has labels in column {data.label_column!r}: the queue chooses among all of its rows."
        )
        say(
            f"{problem} `tuneline labels review` finds labels that are wrong, in the data of the project.",
            error=True,
        )
    with (
        refusing(),
        open_rows(detected.source, columns) as source,
        progress(f"labels queue: {file}", unit="rows") as step,
    ):
        first = replace(source, rows=islice(source.rows, most))
        for rows in windows(good_rows(first, bad), BATCH_SIZE, WINDOW):
            outputs = deployed.predict([row.texts for row in rows], BATCH_SIZE)
            for row, values in zip(rows, outputs.tolist(), strict=True):
                prediction, classes = deployed.task.named_scores(values)
                found.append(
                    ScoredRow(
                        plain_text(row.kept[id_column]) if id_column else None, row.texts, prediction, classes
                    )
                )
                characters += row.characters
            step.advance(len(rows))
            if characters > MOST_CHARACTERS:
                break
    return found


def scored_predictions(scored: ScoredFile) -> Iterator[tuple[int, str | float, dict[str, float]]]:
    """Yield the row number, the prediction and the probabilities of each row of a scored file."""
    try:
        with pq.ParquetFile(scored.path) as file:
            names = file.schema_arrow.names
            # The last columns are prediction, or label, probability and one for each class; then
            # model_version, if it is there.
            kind = Regression if Regression.prediction_column in names[-2:] else Classification
            label = kind.prediction_column
            classes = [name for name in names[names.index(label) :] if name.startswith("probability_")]
            for batch in file.iter_batches(columns=["row", label, *classes]):
                for values in batch.to_pylist():
                    yield (
                        values["row"],
                        values[label],
                        {name.removeprefix("probability_"): values[name] for name in classes},
                    )
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{scored.path} cannot be read: {error}") from None


def joined(
    rows: Iterator[Row], predicted: Iterator[tuple[Any, ...]]
) -> Iterator[tuple[Row, tuple[Any, ...]]]:
    """Yield each row that has a prediction, with it.

    Both are in the order of their numbers, and either may lack some.
    """
    number, *prediction = next(predicted, (None,))
    for row in rows:
        while number is not None and number < row.number:
            number, *prediction = next(predicted, (None,))
        if number is None:
            return
        if number == row.number:
            yield row, tuple(prediction)


NO_LABEL = (None, "", UNLABELLED, str(UNLABELLED))


def keys_of(texts: Sequence[tuple[str, ...]]) -> Keys:
    """Return a hash of each row's texts (``same_text_keys``)."""
    return same_text_keys(pa.array(column, pa.string()) for column in zip(*texts, strict=True))


def labelled_keys(data: DataParams) -> Keys:
    """Return the sorted hashes of all labelled texts: of the files under ``data.path``, or of ``data/raw`` where those are no files.

    Files without the text columns or the label column are other data, and rows that cannot be read have no
    label.
    """
    own = data.source == "files" and not is_url(data.path or "")
    given = Path(data.path or ".") if own else RAW
    folder = given if given.parts[:2] == SOURCE.parts or not own else SOURCE / given
    files = sorted(path for path in folder.rglob("[!.]*") if path.is_file() and path.name.endswith(ENDINGS))
    keys = [np.empty(0, np.uint64)]
    for path in files:
        texts = _texts(path, data, data.label_column if own else LABELS)
        while batch := list(islice(texts, ROW_GROUP)):
            keys.append(keys_of(batch))
    return np.unique(np.concatenate(keys))


def _texts(path: Path, data: DataParams, label: str) -> Iterator[tuple[str, ...]]:
    """Yield the texts of the rows of a file that have a label."""
    try:
        with open_rows(
            Input.of_data(path, data.files), InputColumns(tuple(data.text_columns), (label,))
        ) as source:
            yield from (
                row.texts for row in source.rows if isinstance(row, Row) and row.kept[label] not in NO_LABEL
            )
    except DataError:
        return


FUSION = 60
"""Constant of reciprocal rank fusion: the higher, the more a good rank in both orders counts against a top rank in one."""
PRIOR_WORDS = 10
"""Words of the training data's mixture that are added to each text, so that one new word alone is not as new as a whole text."""


@dataclass(frozen=True)
class QueueRow:
    """A row of the queue, with the share of its words that are not common in training (``None`` if those are unknown)."""

    row: ScoredRow
    new_words: float | None
    reason: str


def training_words() -> Words | None:
    """Return the common words of the data of the model in production, else of the present data; ``None`` if there is no profile."""
    for path in (REFERENCE_PROFILE, CHECKS / "profile.json"):
        if (profile := Profile.read_if_exists(path)) and profile.train.words.hashes:
            return profile.train.words
    return None


def count_labelled(rows: Sequence[ScoredRow], labelled: Keys) -> int:
    """Return how many rows have the texts of a labelled one."""
    return int(np.isin(keys_of([row.texts for row in rows]), labelled).sum())


def rank(
    rows: Sequence[ScoredRow], labelled: Keys, known: Words | None, most: int, similarity: float
) -> list[QueueRow]:
    """Choose the rows to label, the most useful first.

    Of equal texts, the first row counts, and none that is labelled.

    Two texts are near-equal from a similarity on, as in the data check ``near_duplicates``.
    """
    from scipy.stats import rankdata

    keys = keys_of([row.texts for row in rows])
    unlabelled = np.sort(np.unique(keys, return_index=True)[1])
    rows = [rows[index] for index in unlabelled[~np.isin(keys[unlabelled], labelled)]]
    if not rows:
        return []
    columns = zip(*(row.texts for row in rows), strict=True)
    encoded = EncodedWords.of(words([normalized(pa.array(column, pa.string())) for column in columns]))
    margins = []
    for row in rows:  # a number has no probabilities
        *_, second, first = sorted((0.0, *row.probabilities.values())) if row.probabilities else (0.0, 0.0)
        margins.append(first - second)
    total, new = encoded.lengths, _count_new(encoded, known)
    shares = (new + PRIOR_WORDS * (1 - known.known)) / (total + PRIOR_WORDS) if known else np.zeros(len(rows))
    ranks = rankdata(margins), rankdata(-shares)
    order = np.argsort(-sum(1 / (FUSION + one) for one in ranks), kind="stable")
    chosen = _distinct(order, WordSets.of([encoded]), most, similarity)
    fractions = (new / np.maximum(total, 1)).tolist() if known else [None] * len(rows)
    uncertain = (ranks[0] <= ranks[1]).tolist()
    return [
        QueueRow(rows[one], fractions[one], _reason(rows[one], fractions[one], uncertain[one]))
        for one in chosen
    ]


def _count_new(rows: EncodedWords, known: Words | None) -> NDArray[np.int64]:
    """Return the number of words of each row that are not common in training, shape ``(rows,)``."""
    is_new = ~np.isin(rows.keys, known.word_keys) if known else np.zeros(len(rows.keys), bool)
    before = np.r_[0, np.cumsum(is_new[rows.indices])]
    counts: NDArray[np.int64] = np.diff(before[np.r_[0, np.cumsum(rows.lengths)]])
    return counts


def _distinct(order: NDArray[np.int64], sets: WordSets, most: int, similarity: float) -> list[int]:
    """Return the first rows of an order that are not near-equal to one before."""
    chosen: list[int] = []
    is_left = np.ones(len(order), bool)
    for index in order.tolist():
        if len(chosen) == most:
            break
        if is_left[index]:
            chosen.append(index)
            if sets.totals[index]:
                is_left &= sets.similarity_to(index) < similarity
    return chosen


def _reason(row: ScoredRow, new_words: float | None, uncertain: bool) -> str:
    if row.probabilities and (uncertain or new_words is None):
        best = sorted(row.probabilities.items(), key=lambda item: -item[1])[:2]
        return "uncertain: " + ", ".join(f"{name} {probability:.2f}" for name, probability in best)
    return (
        "one of the latest"
        if new_words is None
        else f"new: {new_words:.0%} of its words are not common in training"
    )


def check_replaced(path: Path, data: DataParams, force: bool, column: str, use: str) -> None:
    """Refuse to replace another file, or one in whose ``column`` a person has filled in something, unless it is forced."""
    if path.is_dir():
        raise StageError(f"--output: {path} is a folder.", "Name a file in it.")
    if force or not path.exists():
        return
    csv.field_size_limit(LONGEST_FIELD)
    try:
        with path.open(encoding=ENCODING, errors="replace", newline="") as file:
            filled = sum(
                bool((row[column] or "").strip()) for row in csv.DictReader(file, delimiter=delimiter(data))
            )
    except (csv.Error, KeyError):
        hint = "Name another file with --output, or add --force."
        raise StageError(f"{path} is another file: it has no column {column!r}.", hint) from None
    if filled:
        raise StageError(
            f"{path} has {filled:,} labels, which would be lost.",
            f"{use}, name another file with --output, or add --force.",
        )


def write_queue(path: Path, data: DataParams, id_column: str | None, choices: Sequence[QueueRow]) -> None:
    """Write the queue, with an empty label column."""
    own = [*([id_column] if id_column else []), *data.text_columns, data.label_column]
    rows = []
    for choice in choices:
        row, classes = choice.row, choice.row.probabilities
        given = [*([row.id or ""] if id_column else []), *row.texts, ""]
        probability = round(max(classes.values()), 4) if classes else ""
        new_words = "" if choice.new_words is None else round(choice.new_words, 2)
        rows.append((*given, str(row.prediction), probability, new_words, choice.reason))
    added = free_names(("predicted", "probability", "new_words", "reason"), own).values()
    write_csv(path, data, [*own, *added], rows)
