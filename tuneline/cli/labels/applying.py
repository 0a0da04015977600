"""The filled-in review becomes corrections in ``data/corrections/labels.csv``."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tuneline.analysis.corrections import LABEL_SCHEMA, label_file, row_keys
from tuneline.analysis.text import normalized
from tuneline.core.errors import DataError, InputError
from tuneline.core.paths import RAW, SPLITS
from tuneline.core.tables import LABELS, SplitReader
from tuneline.params import DataParams
from tuneline.project.label_review import CORRECT, KEY, LABEL, ROLES, SPLIT
from tuneline.project.spreadsheet import delimiter, free_names
from tuneline.readers.delimited import DelimitedReader, Dialect
from tuneline.readers.rows import PARAMETERS, Limits, RowProblem, check_columns, listed, nearest
from tuneline.readers.text import open_text
from tuneline.tasks import read_task


@dataclass(frozen=True, slots=True)
class FilledRow:
    """A row of the review in which ``correct`` is filled in.

    Its ``label`` is the one that it had when the review was written.
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
        is_encoded = PARAMETERS.encoding in (error.hint or "")  # a setting of the source, not of this file
        raise InputError(error.problem, 'Save it as "CSV UTF-8".' if is_encoded else error.hint) from None
    if not filled:
        raise InputError(
            f"{path}: no row has anything in column {names[CORRECT]!r}.",
            "Fill it in where another label is right.",
        )
    return filled


def _read(path: Path, data: DataParams, names: Mapping[str, str]) -> Iterator[FilledRow]:
    required = [names[KEY], names[SPLIT], *data.text_columns, names[LABEL], names[CORRECT]]
    limits = Limits.of(
        data.files.max_cell_characters, data.files.max_row_group_mb, data.files.max_unpacked_mb
    )
    with open_text(path, "utf-8", limits=limits) as lines:
        reader = DelimitedReader(lines, _dialect(path, data, names[CORRECT]))
        check_columns(reader.names, dict.fromkeys(required, "of `tuneline labels review`"), str(path))
        cells = [reader.names.index(name) for name in required]
        for line, fields in reader:
            if isinstance(fields, RowProblem):
                raise DataError(f"{path}, line {line:,}: {fields.message}.", fields.hint)
            key, split, *texts, label, correct = (fields[cell] for cell in cells)
            if correct.strip():
                yield FilledRow(
                    line, key.strip(), split.strip(), tuple(texts), label.strip(), correct.strip()
                )


def _dialect(path: Path, data: DataParams, column: str) -> Dialect:
    """Return the dialect with the delimiter that the spreadsheet chose: it may be another than the one that was written."""
    dialects = [Dialect(character, literal=False) for character in (delimiter(data), ",", ";", "\t")]
    for dialect in dialects:
        with open_text(path, "utf-8") as lines:
            if column in DelimitedReader(lines, dialect).names:
                return dialect
    return dialects[0]


CUT = 32_767
"""Characters at which spreadsheets cut a cell."""
SHOWN = 10
"""Problems that a message names."""


class MergedCorrections:
    """Adds the corrections of a review to the present ones, row by row.

    Attributes:
        new, present, confirmed: Rows whose correction is new, is there already, or is the label that they
            have.
    """

    def __init__(
        self, path: Path, filled: Sequence[FilledRow], data: DataParams, corrections: pa.Table
    ) -> None:
        """Add the rows of a review in which ``correct`` is filled in.

        Raises:
            InputError: A label is not a class, a hash or text or label is not that of the data, or two
                corrections of a row differ.
        """
        self.path, self.text_columns = path, data.text_columns
        self.names = free_names(ROLES, data.text_columns)
        self.schema = read_task(SplitReader.open(RAW, "train", "download").schema)
        self.known = {
            (one["key"], one["before"]): (one["split"], one["after"]) for one in corrections.to_pylist()
        }
        self.origins: dict[tuple[str, str], list[str]] = defaultdict(
            list
        )  # the labels of the source that became a label of data/raw
        for (key, before), (_, after) in self.known.items():
            self.origins[key, after].append(before)
        self.texts: dict[str, tuple[str, ...]] = {}  # of the rows of data/raw, by their hash
        self.labels: dict[str, set[str]] = defaultdict(
            set
        )  # of these rows, as ``Task.exact_text`` writes them
        self._find({row.key for row in filled})
        self.lines: dict[tuple[str, str], tuple[int, str]] = {}
        self.problems: list[str] = []
        self.new = self.present = self.confirmed = 0
        for row in filled:
            self._add(row)
        if problems := self.problems:
            more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
            raise InputError("\n  ".join(["nothing was applied.", *problems[:SHOWN], *more]))

    def _find(self, keys: set[str]) -> None:
        """Find the rows of ``data/raw`` with these hashes."""
        wanted = pa.array(sorted(keys), pa.string())
        for split in SPLITS:
            for batch in SplitReader.open(RAW, split, "download").batches([*self.text_columns, LABELS]):
                hashes = row_keys([batch[name] for name in self.text_columns])
                is_wanted = pc.is_in(hashes, value_set=wanted)
                chosen = batch.filter(is_wanted)
                for key, row in zip(hashes.filter(is_wanted).to_pylist(), chosen.to_pylist(), strict=True):
                    self.texts[key] = tuple(row[name] for name in self.text_columns)
                    self.labels[key].add(self.schema.exact_text(row[LABELS]))

    def table(self) -> pa.Table:
        """Return all corrections, of ``LABEL_SCHEMA``."""
        rows = [(key, split, before, after) for (key, before), (split, after) in self.known.items()]
        return pa.Table.from_pylist(
            [dict(zip(LABEL_SCHEMA.names, row, strict=True)) for row in rows], LABEL_SCHEMA
        )

    def _add(self, row: FilledRow) -> None:
        """Add the correction of a row, or its problem."""
        labels = self._labels(row)
        if labels is None or not self._is_row(row):
            return
        label, correct = labels
        now = self.labels[row.key]
        line, other = self.lines.setdefault((row.key, label), (row.line, correct))
        decided = self.known.get((row.key, label), ("", correct))[1]
        if other != correct:
            self._refuse(
                row,
                self.names[CORRECT],
                f"{correct!r}, but {other!r} in line {line:,}, for the same texts. Decide",
            )
        elif label == correct:
            self.confirmed += 1
        elif label not in now and correct not in now:
            self._refuse(
                row,
                self.names[LABEL],
                f"{label!r}, but {listed(sorted(now))} in {RAW}. Write the review again",
            )
        elif label in now and decided != correct:
            self._refuse(
                row,
                self.names[CORRECT],
                f"{correct!r}, but {label_file()} has {decided!r}. Run `dvc repro`, and review again",
            )
        elif (
            label not in now
            or line != row.line
            or (row.key, label) in self.known
            or self._waits(row.key, correct, now)
        ):
            self.present += 1
        else:
            self._correct(row, label, correct)

    def _waits(self, key: str, correct: str, now: set[str]) -> bool:
        """Return True if the correction is listed, by the label of the source, and not in ``data/raw`` yet."""
        return correct not in now and any(before not in now for before in self.origins[key, correct])

    def _correct(self, row: FilledRow, label: str, correct: str) -> None:
        self.new += 1
        for before in self.origins.get((row.key, label)) or [
            label
        ]:  # the source has the first label, whatever was corrected since
            if before == correct:
                del self.known[row.key, before]
            else:
                self.known[row.key, before] = (row.split, correct)

    def _labels(self, row: FilledRow) -> tuple[str, str] | None:
        names = self.schema.names
        try:
            label, correct = map(self.schema.exact_text, (row.label, row.correct))
        except ValueError:
            self._refuse(row, self.names[CORRECT], f"{row.correct!r} is not a number")
            return None
        if names is None or correct in names:
            return label, correct
        self._refuse(
            row, self.names[CORRECT], f"{correct!r} is not one of {listed(names)}{nearest(correct, names)}"
        )
        return None

    def _is_row(self, row: FilledRow) -> bool:
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
    """Return True if a cell of a spreadsheet has a text: white space may differ, and a long text may be cut."""
    one, other = normalized(pa.array([cell, text], pa.string())).to_pylist()
    return one == other or (len(cell) >= CUT and other.startswith(one))
