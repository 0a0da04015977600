"""The filled-in review becomes corrections in ``data/corrections/labels.csv``."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tuneline.analysis.corrections import LABEL_SCHEMA, label_file, row_keys
from tuneline.analysis.text import normalized
from tuneline.core.tables import LABELS, SplitReader
from tuneline.labels.label_review import CORRECT, KEY, LABEL, ROLES, SPLIT
from tuneline.params import DataParams
from tuneline.paths import RAW, SPLITS
from tuneline.readers.delimited import CSV, DelimitedReader
from tuneline.readers.rows import PARAMETERS, Limits, RowProblem, check_columns, nearest
from tuneline.readers.tables import Layout
from tuneline.readers.text import open_text
from tuneline.runtime.errors import DataError, InputError
from tuneline.runtime.wording import first_lines, listed
from tuneline.tasks.columns import labels_of
from tuneline.tasks.schemas import read_task
from tuneline.words.label_texts import exact_text, unknown_names
from tuneline.words.spreadsheet import delimiter, free_names


@dataclass(frozen=True, slots=True)
class FilledRow:
    """A row of the review in which ``correct`` is filled in.

    Attributes:
        line: Number of its line in the file.
        key: Hash of its texts.
        label: The label that it had when the review was written.
        correct: The label that a person filled in.
    """

    line: int
    key: str
    split: str
    texts: tuple[str, ...]
    label: str
    correct: str


def read_filled(path: Path, data: DataParams) -> list[FilledRow]:
    """Read the rows in which ``correct`` is filled in.

    Raises:
        InputError: The file is no review, or nothing is filled in. The message names the file, the line and
            the column.
    """
    names = free_names(ROLES, data.text_columns)
    try:
        filled = list(_read(path, data, names))
    except DataError as error:
        hint = error.hint
        if PARAMETERS.encoding in (hint or ""):  # a setting of the source, not of this file
            hint = 'Save it as "CSV UTF-8".'
        raise InputError(error.problem, hint) from None
    if not filled:
        raise InputError(
            f"{path}: no row has anything in column {names[CORRECT]!r}.",
            "Fill it in where another label is right.",
        )
    return filled


def _read(path: Path, data: DataParams, names: Mapping[str, str]) -> Iterator[FilledRow]:
    """Yield the rows in which ``correct`` is filled in; ``names`` has the names of the review's columns."""
    required = [names[KEY], names[SPLIT], *data.text_columns, names[LABEL], names[CORRECT]]
    limits = Limits.of(
        data.files.max_cell_characters, data.files.max_row_group_mb, data.files.max_unpacked_mb
    )
    with open_text(path, "utf-8", limits=limits) as lines:
        reader = DelimitedReader(lines, _layout(path, data, names[CORRECT]))
        check_columns(reader.names, dict.fromkeys(required, "of `tuneline labels review`"), str(path))
        # A person may have moved or added columns in the spreadsheet
        positions = {name: reader.names.index(name) for name in required}

        for line, fields in reader:
            if isinstance(fields, RowProblem):
                raise DataError(f"{path}, line {line:,}: {fields.message}.", fields.hint)
            correct = fields[positions[names[CORRECT]]].strip()
            if not correct:
                continue
            yield FilledRow(
                line,
                key=fields[positions[names[KEY]]].strip(),
                split=fields[positions[names[SPLIT]]].strip(),
                texts=tuple(fields[positions[name]] for name in data.text_columns),
                label=fields[positions[names[LABEL]]].strip(),
                correct=correct,
            )


def _layout(path: Path, data: DataParams, column: str) -> Layout:
    """Return how the file is written: the first layout with which its header has the column.

    A spreadsheet may have saved the file with another delimiter than the one that was written.
    """
    delimiters = (delimiter(data), ",", ";", "\t")
    layouts = [Layout(CSV, delimiter=character) for character in delimiters]
    for layout in layouts:
        with open_text(path, "utf-8") as lines:
            if column in DelimitedReader(lines, layout).names:
                return layout
    return layouts[0]


CUT = 32_767
"""Characters at which spreadsheets cut a cell."""
SHOWN = 10
"""Problems that a message names."""


class MergedCorrections:
    """Adds the corrections of a review to those that there are, row by row.

    Attributes:
        new: Number of rows with a correction that is new.
        repeated: Number of rows with a correction that is listed already.
        confirmed: Number of rows whose correction is the label that they have.
    """

    def __init__(
        self, path: Path, filled: Sequence[FilledRow], data: DataParams, corrections: pa.Table
    ) -> None:
        """Add the rows of a review in which ``correct`` is filled in.

        Raises:
            InputError: A label is not a class, the data has another hash, text or label, or two
                corrections of a row differ.
        """
        self.path = path
        self.text_columns = data.text_columns
        self.names = free_names(ROLES, data.text_columns)
        self.schema = read_task(SplitReader.open(RAW, "train", "download").schema)

        # The split and the right label, by the hash of a row and its label in the source
        self.corrections: dict[tuple[str, str], tuple[str, str]] = {}
        for correction in corrections.to_pylist():
            row_and_label = (correction["key"], correction["before"])
            self.corrections[row_and_label] = (correction["split"], correction["after"])

        # The labels in the source that were corrected to a label, by the hash of the row and that label
        self.origins: dict[tuple[str, str], list[str]] = defaultdict(list)
        for (key, before), (_, after) in self.corrections.items():
            self.origins[key, after].append(before)

        # The rows of data/raw by their hash; labels as ``Task.exact_text`` writes them
        self.texts: dict[str, tuple[str, ...]] = {}
        self.labels: dict[str, set[str]] = defaultdict(set)
        self._find({row.key for row in filled})

        # The first line about a row and its label, with its correction
        self.lines: dict[tuple[str, str], tuple[int, str]] = {}
        self.problems: list[str] = []
        self.new = 0
        self.repeated = 0
        self.confirmed = 0
        for row in filled:
            self._add(row)
        self._check()

    def _find(self, keys: set[str]) -> None:
        """Find the rows of ``data/raw`` with these hashes."""
        wanted = pa.array(sorted(keys), pa.string())
        for split in SPLITS:
            for batch in SplitReader.open(RAW, split, "download").batches([*self.text_columns, LABELS]):
                hashes = row_keys([batch[name] for name in self.text_columns])
                is_wanted = pc.is_in(hashes, value_set=wanted)
                chosen = batch.filter(is_wanted)
                labels = labels_of(self.schema, chosen[LABELS])
                rows = zip(hashes.filter(is_wanted).to_pylist(), chosen.to_pylist(), labels, strict=True)
                for key, row, label in rows:
                    self.texts[key] = tuple(row[name] for name in self.text_columns)
                    self.labels[key].add(exact_text(self.schema, label))

    def _check(self) -> None:
        """Refuse the whole review if a row has a problem: a half-applied file would be hard to correct."""
        if not self.problems:
            return
        lines = ["nothing was applied."]
        lines += first_lines(self.problems, SHOWN)
        raise InputError("\n  ".join(lines))

    def table(self) -> pa.Table:
        """Return all corrections, of ``LABEL_SCHEMA``."""
        rows = []
        for (key, before), (split, after) in self.corrections.items():
            values = (key, split, before, after)
            rows.append(dict(zip(LABEL_SCHEMA.names, values, strict=True)))
        return pa.Table.from_pylist(rows, LABEL_SCHEMA)

    def _add(self, row: FilledRow) -> None:
        """Add the correction of a row, or its problem."""
        labels = self._labels(row)
        if labels is None or not self._is_row(row):
            return
        label, correct = labels
        labels_now = self.labels[row.key]

        # What this review and the corrections say about the same texts with the same label
        first_line, first_correct = self.lines.setdefault((row.key, label), (row.line, correct))
        _, decided = self.corrections.get((row.key, label), ("", correct))

        if first_correct != correct:
            self._refuse(
                row,
                self.names[CORRECT],
                f"{correct!r}, but {first_correct!r} in line {first_line:,}, for the same texts. Decide",
            )
        elif label == correct:
            self.confirmed += 1
        elif label not in labels_now and correct not in labels_now:
            self._refuse(
                row,
                self.names[LABEL],
                f"{label!r}, but {listed(sorted(labels_now))} in {RAW}. Write the review again",
            )
        elif label in labels_now and decided != correct:
            self._refuse(
                row,
                self.names[CORRECT],
                f"{correct!r}, but {label_file()} has {decided!r}. Run `dvc repro`, and review again",
            )
        elif first_line != row.line or self._is_corrected(row.key, label, correct):
            self.repeated += 1
        else:
            self._correct(row, label, correct)

    def _is_corrected(self, key: str, label: str, correct: str) -> bool:
        """Return True if the label of a row is corrected already, even if ``data/raw`` is older."""
        labels_now = self.labels[key]
        if label not in labels_now:  # `dvc repro` has applied the correction
            return True
        if (key, label) in self.corrections:
            return True
        # The correction may be listed by the label in the source, which an earlier correction replaced
        if correct in labels_now:
            return False
        return any(before not in labels_now for before in self.origins[key, correct])

    def _correct(self, row: FilledRow, label: str, correct: str) -> None:
        """Add a correction of the label in the source, which an earlier correction may have replaced."""
        self.new += 1
        for before in self.origins.get((row.key, label)) or [label]:
            if before == correct:  # the source is right after all
                del self.corrections[row.key, before]
            else:
                self.corrections[row.key, before] = (row.split, correct)

    def _labels(self, row: FilledRow) -> tuple[str, str] | None:
        """Return the label and its correction as ``data/raw`` writes them; ``None`` if one is invalid."""
        try:
            label = exact_text(self.schema, row.label)
            correct = exact_text(self.schema, row.correct)
        except ValueError:
            self._refuse(row, self.names[CORRECT], f"{row.correct!r} is not a number")
            return None
        unknown = unknown_names(self.schema, correct)
        if not unknown:
            return label, correct
        names = self.schema.class_names
        self._refuse(
            row,
            self.names[CORRECT],
            f"{unknown[0]!r} is not one of {listed(names)}{nearest(unknown[0], names)}",
        )
        return None

    def _is_row(self, row: FilledRow) -> bool:
        """Return True if ``data/raw`` has a row with this hash and these texts; else keep the problem."""
        if row.key not in self.texts:
            self._refuse(
                row,
                self.names[KEY],
                f"{row.key!r} is no row of {RAW}. It may have changed in a spreadsheet, or the data since",
            )
            return False
        for name, cell, text in zip(self.text_columns, row.texts, self.texts[row.key], strict=True):
            if not is_same_text(cell, text):
                self._refuse(
                    row,
                    name,
                    f"{cell[:40]!r} is not the text of this {self.names[KEY]}. Sort all columns together, or"
                    " none",
                )
                return False
        return True

    def _refuse(self, row: FilledRow, column: str, problem: str) -> None:
        self.problems.append(f"{self.path}, line {row.line:,}, column {column!r}: {problem}.")


def is_same_text(cell: str, text: str) -> bool:
    """Return True if a cell of a spreadsheet has a text.

    White space may differ, and a spreadsheet cuts a long text.
    """
    cell_words, text_words = normalized(pa.array([cell, text], pa.string())).to_pylist()
    if cell_words == text_words:
        return True
    return len(cell) >= CUT and text_words.startswith(cell_words)
