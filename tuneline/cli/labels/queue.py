"""The queue: predicted texts to label, in a CSV file.

People open the file in a spreadsheet, and it is read as labelled data afterwards.

A row is uncertain if its two most probable classes are close (margin sampling: Scheffer et al., "Active
Hidden Markov Models for Information Extraction", 2001), or if one of several labels is close to its
threshold; it is new if many of its words are not common in training. The two orders are combined by
reciprocal rank fusion (Cormack et al., 2009), which needs no common scale: the first rows of either order
come first.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.analysis.similarity import WordSets
from tuneline.analysis.text import EncodedWords, Keys, normalized, same_text_keys, words
from tuneline.core.tables import LABELS
from tuneline.labels.ranking import by_doubt, margin, named_scores
from tuneline.model.encoding import EncodingError
from tuneline.params import DataParams
from tuneline.paths import CHECKS, CLASSIFIER, RAW, REFERENCE_PROFILE, SOURCE
from tuneline.predict.model_choice import ModelChoice
from tuneline.predict.prediction_columns import cell_text
from tuneline.predict.scored import ScoredFile, open_archived, scored_files
from tuneline.predict.streaming import good_rows
from tuneline.program.row_windows import BATCH_SIZE, WINDOW, windows
from tuneline.readers.files import is_url
from tuneline.readers.formats import ENDINGS, data_input
from tuneline.readers.inputs import InputColumns, Row, open_rows
from tuneline.readers.label_values import plain_text
from tuneline.readers.labelled import LABEL, LabelledColumns, labelled_rows
from tuneline.readers.rows import BadRowPolicy, BadRows
from tuneline.readers.tables import Input, open_table
from tuneline.reports.checks import Profile, Words
from tuneline.runtime.errors import DataError, StageError, refusing
from tuneline.runtime.terminal import progress, say
from tuneline.runtime.wording import listed
from tuneline.sniffing.files import sniffed_input
from tuneline.tasks import TASKS, Task, trained_task, unnamed_task
from tuneline.tasks.columns import label_texts
from tuneline.tasks.task import UNLABELLED
from tuneline.words.label_texts import unfilled_cell
from tuneline.words.spreadsheet import ENCODING, LONGEST_FIELD, delimiter, free_names, write_csv

LEFT_OUT = BadRowPolicy("skip", max_share=1.0)
MOST_CHARACTERS = 1 << 28
"""Characters of texts that are kept in memory; no further rows are read beyond them."""


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A row that was predicted by a model of a task, with its probabilities by class name."""

    task: Task
    id: str | None
    texts: tuple[str, ...]
    prediction: str | float
    probabilities: dict[str, float]


def collect_scored_rows(
    outbox: Path, data: DataParams, id_column: str | None, last_rows: int
) -> tuple[list[ScoredRow], list[str]]:
    """Return the last scored rows, the rows of the latest file first; and why files were left out."""
    collected: list[ScoredRow] = []
    problems: list[str] = []
    characters = 0
    columns = _columns(data.text_columns, id_column)
    for scored in scored_files(outbox):
        rows_before = len(collected)
        try:
            task = scored_task(scored, TASKS[data.task])
            with open_archived(Path(), scored, columns) as rows:
                for row, prediction, probabilities in joined(rows, scored_predictions(scored, task)):
                    if len(collected) == last_rows or characters > MOST_CHARACTERS:
                        return collected, problems
                    row_id = _id_of(row, id_column)
                    collected.append(ScoredRow(task, row_id, row.texts, prediction, probabilities))
                    characters += row.characters
            if len(collected) == rows_before and scored.record.rows:
                names = " and ".join(map(repr, columns.options))
                problems.append(f"{scored.record.archived}: no row has {names}.")
        except DataError as error:
            problems.append(error.problem)
    return collected, problems


def _columns(texts: Sequence[str], id_column: str | None) -> InputColumns:
    """Return the columns to read: the texts, and the ids if there is a column of ids."""
    kept = () if id_column is None else (id_column,)
    return InputColumns(tuple(texts), kept)


def _id_of(row: Row, id_column: str | None) -> str | None:
    if not id_column:
        return None
    return plain_text(row.kept[id_column])


def predict_first_rows(
    file: Path, model: Path, data: DataParams, id_column: str | None, max_rows: int
) -> list[ScoredRow]:
    """Return the first rows of a file with the predictions that ``tuneline predict`` makes.

    Bad rows are reported, and a column of labels, which is not read.

    Raises:
        InputError: The file cannot be read, lacks a column, or has a row that the tokenizer cannot encode.
        StageError: There is no such model, or it reads other columns.
    """
    # model
    deployed = ModelChoice(model).load_and_warn()
    texts = data.text_columns
    if tuple(texts) != deployed.text_columns:
        problem = (
            f"{model} was trained on {listed(deployed.text_columns)}, and data.text_columns is"
            f" {listed(texts)}."
        )
        raise StageError(problem, "Run `dvc repro`, or name another model: --model.")

    # file
    columns = _columns(texts, id_column)
    bad = BadRows(str(file), "row", LEFT_OUT)
    with refusing():
        source = sniffed_input(file, list(columns.options), strict=True)
        with open_table(source) as table:
            names = table.names()
    if data.label_column in names:
        problem = (
            f"{file} has labels in column {data.label_column!r}: the queue chooses among all of its rows."
        )
        say(
            f"{problem} `tuneline labels review` finds labels that are wrong, in the data of the project.",
            error=True,
        )

    # predictions, window by window: only so many texts are kept in memory
    predicted: list[ScoredRow] = []
    characters = 0
    with (
        refusing(),
        open_rows(source, columns) as opened,
        progress(f"labels queue: {file}", unit="rows") as step,
    ):
        first = replace(opened, rows=islice(opened.rows, max_rows))
        for rows in windows(good_rows(first, bad), BATCH_SIZE, WINDOW, lambda row: row.characters):
            try:
                outputs = deployed.outputs(deployed.encode([row.texts for row in rows]), BATCH_SIZE)
            except EncodingError as error:
                raise error.at(f"{file}, row {rows[error.row].number}") from None
            for row, values in zip(rows, outputs.tolist(), strict=True):
                prediction, probabilities = named_scores(deployed.task, values)
                row_id = _id_of(row, id_column)
                predicted.append(ScoredRow(deployed.task, row_id, row.texts, prediction, probabilities))
                characters += row.characters
            step.advance(len(rows))
            if characters > MOST_CHARACTERS:
                break
    return predicted


NumberedPrediction = tuple[int, str | float, dict[str, float]]
"""Row number, prediction, and probabilities by class name."""


PROBABILITY = "probability_"
"""What the columns of probabilities begin with."""


def scored_task(scored: ScoredFile, kind: type[Task]) -> Task:
    """Return the task of a scored file, whose classes have columns.

    A file does not tell what decided, such as thresholds: it is what the model that was trained here says, if
    it has the same classes.
    """
    task = kind.of_outputs([name.removeprefix(PROBABILITY) for name in _probability_columns(scored, kind)])
    if not (CLASSIFIER / "config.json").exists():
        return task
    try:
        return trained_task(task, CLASSIFIER)
    except (KeyError, ValueError):  # of other classes
        return task


def _probability_columns(scored: ScoredFile, kind: type[Task]) -> list[str]:
    """Return the columns with the probability of each class; a file of the user may have others before."""
    names = _opened_names(scored)
    if kind.prediction_column not in names:
        raise DataError(
            f"{scored.path} has no column {kind.prediction_column!r}: another task has scored it."
        )
    last_columns = names[names.index(kind.prediction_column) :]
    return [name for name in last_columns if name.startswith(PROBABILITY)]


def _opened_names(scored: ScoredFile) -> list[str]:
    try:
        return list(pq.read_schema(scored.path).names)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{scored.path} cannot be read: {error}") from None


def scored_predictions(scored: ScoredFile, task: Task) -> Iterator[NumberedPrediction]:
    """Yield the row number, the prediction and the probabilities of each row of a scored file."""
    classes = _probability_columns(scored, type(task))
    label = task.prediction_column
    try:
        with pq.ParquetFile(scored.path) as file:
            for batch in file.iter_batches(columns=["row", label, *classes]):
                for values in batch.to_pylist():
                    probabilities = {name.removeprefix(PROBABILITY): values[name] for name in classes}
                    answer = values[label]
                    if answer is None and task.one_class:  # the model was to give none
                        answer = max(probabilities, key=lambda name: probabilities[name])
                    yield values["row"], cell_text(task, answer), probabilities
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{scored.path} cannot be read: {error}") from None


def joined(
    rows: Iterator[Row], predictions: Iterator[NumberedPrediction]
) -> Iterator[tuple[Row, str | float, dict[str, float]]]:
    """Yield each row that has a prediction, with the prediction and its probabilities.

    Both are in the order of their numbers, and either may lack some.
    """
    prediction = next(predictions, None)
    for row in rows:
        while prediction is not None and prediction[0] < row.number:
            prediction = next(predictions, None)
        if prediction is None:
            return
        number, value, probabilities = prediction
        if number == row.number:
            yield row, value, probabilities


NO_LABEL = pa.array([None, str(UNLABELLED)], pa.string())
"""Texts of a label that is missing."""


def keys_of(texts: Sequence[tuple[str, ...]]) -> Keys:
    """Return a hash of each row's texts (``same_text_keys``)."""
    return same_text_keys(pa.array(column, pa.string()) for column in zip(*texts, strict=True))


def labelled_keys(data: DataParams) -> Keys:
    """Return the sorted hashes of all labelled texts.

    They are the texts of the files under ``data.path``, or of ``data/raw`` where the source is no folder.
    Files without the text columns or the label column are other data, and rows that cannot be read have no
    label.
    """
    texts = tuple(data.text_columns)
    if data.source == "files" and not is_url(data.path or ""):
        folder = Path(data.path or ".")
        if folder.parts[:2] != SOURCE.parts:
            folder = SOURCE / folder
        label = data.label_column
    else:
        folder = RAW
        label = LABELS
    columns = LabelledColumns(
        texts, label, unnamed_task(data.task), sparse=True, policy=LEFT_OUT, sets=data.label_sets
    )

    entries = folder.rglob("[!.]*")
    files = sorted(path for path in entries if path.is_file() and path.name.endswith(ENDINGS))
    keys = [np.empty(0, np.uint64)]
    for path in files:
        keys += _keys_of_labelled(data_input(path, data.files), columns)
    return np.unique(np.concatenate(keys))


def _keys_of_labelled(source: Input, columns: LabelledColumns) -> Iterator[Keys]:
    """Yield hashes of the texts of the rows of a file that have a label."""
    try:
        with open_table(source) as table:
            for batch in labelled_rows(table, columns, BadRows(table.name, source.unit, LEFT_OUT)):
                is_missing = pc.is_in(label_texts(columns.task, batch[LABEL]), NO_LABEL)
                labelled = batch.filter(pc.invert(is_missing))
                texts = labelled.columns[: len(columns.texts)]
                yield same_text_keys([pc.fill_null(text, "") for text in texts])
    except DataError:
        return


FUSION = 60
"""Constant of reciprocal rank fusion.

The higher it is, the more a good rank in both orders counts against a top rank in one.
"""
PRIOR_WORDS = 10
"""Words of the training data's mixture that are added to each text.

Without them, a text of one new word would be as new as a long text of new words.
"""


@dataclass(frozen=True)
class QueueRow:
    """A row of the queue.

    Attributes:
        new_words: Share of its words that are not common in training; ``None`` without a profile.
        reason: Why people should label it.
    """

    row: ScoredRow
    new_words: float | None
    reason: str


def training_words() -> Words | None:
    """Return the common words of the training data; ``None`` if there is no profile.

    The data of the model in production comes first, because that model made the predictions; then the data
    that is here.
    """
    for path in (REFERENCE_PROFILE, CHECKS / "profile.json"):
        profile = Profile.read_if_exists(path)
        if profile is not None and profile.train.words.hashes:
            return profile.train.words
    return None


def count_labelled(rows: Sequence[ScoredRow], labelled: Keys) -> int:
    """Return how many rows have the texts of a labelled one."""
    return int(np.isin(keys_of([row.texts for row in rows]), labelled).sum())


def rank(
    rows: Sequence[ScoredRow], labelled: Keys, known: Words | None, max_rows: int, similarity: float
) -> list[QueueRow]:
    """Choose the rows to label, the most useful first.

    Args:
        rows: Predicted rows. The first of equal texts counts.
        labelled: Sorted hashes of the labelled texts, which are left out.
        known: Common words of the training data; without them, no text is new.
        max_rows: Largest number of rows to choose.
        similarity: Similarity from which two texts are near-equal, as in the data check ``near_duplicates``:
            only the first of them is chosen.
    """
    from scipy.stats import rankdata

    rows = _unlabelled_rows(rows, labelled)
    if not rows:
        return []

    # words
    columns = zip(*(row.texts for row in rows), strict=True)
    encoded = EncodedWords.of(words([normalized(pa.array(column, pa.string())) for column in columns]))
    total = encoded.lengths
    new = _count_new(encoded, known)
    if known is None:
        shares = np.zeros(len(rows))
        fractions: list[float | None] = [None] * len(rows)
    else:
        shares = (new + PRIOR_WORDS * (1 - known.known)) / (total + PRIOR_WORDS)
        fractions = (new / np.maximum(total, 1)).tolist()

    # the two orders, and their fusion
    uncertainty_ranks = rankdata([margin(row.task, row.probabilities) for row in rows])
    novelty_ranks = rankdata(-shares)
    fused = 1 / (FUSION + uncertainty_ranks) + 1 / (FUSION + novelty_ranks)
    order = np.argsort(-fused, kind="stable")

    is_uncertain = (uncertainty_ranks <= novelty_ranks).tolist()
    queue = []
    for index in _distinct(order, WordSets.of([encoded]), max_rows, similarity):
        reason = _reason(rows[index], fractions[index], is_uncertain[index])
        queue.append(QueueRow(rows[index], fractions[index], reason))
    return queue


def _unlabelled_rows(rows: Sequence[ScoredRow], labelled: Keys) -> list[ScoredRow]:
    """Return the first row of each text that has no label, in the order of the rows."""
    keys = keys_of([row.texts for row in rows])
    _, first = np.unique(keys, return_index=True)
    first = np.sort(first)
    unlabelled = first[~np.isin(keys[first], labelled)]
    return [rows[index] for index in unlabelled]


def _count_new(rows: EncodedWords, known: Words | None) -> NDArray[np.int64]:
    """Return the number of words of each row that are not common in training, shape ``(rows,)``."""
    if known is None:
        return np.zeros(len(rows.lengths), np.int64)
    is_new = ~np.isin(rows.keys, known.word_keys)
    # Differences of the running count at the ends of the rows: the words of all rows are in one array
    running = np.r_[0, np.cumsum(is_new[rows.indices])]
    ends = np.r_[0, np.cumsum(rows.lengths)]
    counts: NDArray[np.int64] = np.diff(running[ends])
    return counts


def _distinct(order: NDArray[np.int64], sets: WordSets, max_rows: int, similarity: float) -> list[int]:
    """Return the first rows of an order that are not near-equal to one before."""
    chosen: list[int] = []
    is_left = np.ones(len(order), bool)
    for index in order.tolist():
        if len(chosen) == max_rows:
            break
        if is_left[index]:
            chosen.append(index)
            if sets.totals[index]:  # texts without words are not alike
                is_left &= sets.similarity_to(index) < similarity
    return chosen


def _reason(row: ScoredRow, new_words: float | None, is_uncertain: bool) -> str:
    if row.probabilities and (is_uncertain or new_words is None):
        names = by_doubt(row.task, row.probabilities)[:2]
        doubtful = ", ".join(f"{name} {row.probabilities[name]:.2f}" for name in names)
        return f"uncertain: {doubtful}"
    if new_words is None:
        return "one of the latest"
    return f"new: {new_words:.0%} of its words are not common in training"


def check_replaced(path: Path, data: DataParams, force: bool, columns: Sequence[str], use: str) -> None:
    """Refuse to replace another file, or one with work of a person, unless it is forced.

    Args:
        path: The file to write.
        data: Parameters with the format of the file.
        force: Replace the file whatever it is.
        columns: The columns that people fill in.
        use: What to do with a file in which it is filled in, for the message.

    Raises:
        StageError: The file would be lost.
    """
    if path.is_dir():
        raise StageError(f"--output: {path} is a folder.", "Name a file in it.")
    if force or not path.exists():
        return

    csv.field_size_limit(LONGEST_FIELD)
    filled = 0
    try:
        with path.open(encoding=ENCODING, errors="replace", newline="") as file:
            for row in csv.DictReader(file, delimiter=delimiter(data)):
                cells = {(row[column] or "").strip() for column in columns}
                if cells - {"", unfilled_cell(data.task)}:
                    filled += 1
    except (csv.Error, KeyError):
        hint = "Name another file with --output, or add --force."
        raise StageError(f"{path} is another file: it has no column {listed(columns)}.", hint) from None
    if filled:
        raise StageError(
            f"{path} has {filled:,} labels, which would be lost.",
            f"{use}, name another file with --output, or add --force.",
        )


def write_queue(path: Path, data: DataParams, id_column: str | None, choices: Sequence[QueueRow]) -> None:
    """Write the queue, with a label column to fill in, or a column for each label."""
    header = [*data.text_columns, *data.label_columns]
    if id_column:
        header.insert(0, id_column)
    header += free_names(("predicted", "probability", "new_words", "reason"), header).values()

    rows = []
    for choice in choices:
        row = choice.row
        probability: float | str = ""
        if row.probabilities:
            most_doubtful = by_doubt(row.task, row.probabilities)[0]
            probability = round(row.probabilities[most_doubtful], 4)
        new_words: float | str = ""
        if choice.new_words is not None:
            new_words = round(choice.new_words, 2)
        values: list[object] = [*row.texts]
        values += [unfilled_cell(data.task)] * len(data.label_columns)
        values += [str(row.prediction), probability, new_words, choice.reason]
        if id_column:
            values.insert(0, row.id or "")
        rows.append(values)
    write_csv(path, data, header, rows)
