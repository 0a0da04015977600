"""The filled-in review becomes corrections in ``data/corrections/labels.csv``."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tuneline.cli.labels.filled_review import FilledRow
from tuneline.cli.labels.review_file import CORRECT, KEY, LABEL, column_names
from tuneline.corrections import LABEL_SCHEMA, label_file, row_keys
from tuneline.errors import InputError
from tuneline.files.schemas import LABELS, LabelSchema
from tuneline.files.shards import SplitReader
from tuneline.params import DataParams
from tuneline.paths import RAW, SPLITS
from tuneline.readers.rows import listed, nearest
from tuneline.text import normalized

CUT = 32_767
"""Characters at which spreadsheets cut a cell."""
SHOWN = 10
"""Problems that a message names."""


@dataclass
class PresentRow:
    """Rows of ``data/raw`` with the same texts.

    Attributes:
        texts: Their texts.
        labels: Their labels, as ``label_text`` writes them.
    """

    texts: tuple[str, ...]
    labels: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Applied:
    """Label corrections with those of a review.

    Attributes:
        corrections: All of them, of ``LABEL_SCHEMA``.
        new: Number of rows of the review whose correction was added.
        present: Number of rows of the review whose correction is there already.
        confirmed: Number of rows of the review whose label is right.
    """

    corrections: pa.Table
    new: int
    present: int
    confirmed: int


def label_text(label: object, schema: LabelSchema) -> str:
    """Return a label as corrections have it: the class name, given it or its id; or a number with the digits of a 32-bit float.

    Raises:
        ValueError: A number is none, or not finite.
    """
    if schema.names is not None:
        return schema.names[label] if isinstance(label, int) else str(label)
    number = np.float32(label)  # type: ignore[arg-type]
    if not np.isfinite(number):
        raise ValueError("not finite")
    return str(number)


def apply_review(path: Path, filled: Sequence[FilledRow], data: DataParams, present: pa.Table) -> Applied:
    """Add the corrections of a review.

    Args:
        path: The file, for messages.
        filled: Its rows in which ``correct`` is filled in.
        data: Section ``data`` of the parameters.
        present: The present label corrections.

    Raises:
        InputError: A label is not a class, a hash or text or label is not that of the data, or two corrections of a row differ.
    """
    schema = LabelSchema.of(SplitReader.open(RAW, "train", "download").schema)
    rows = find_rows({row.key for row in filled}, data.text_columns, schema)
    merge = _Merge(path, schema, data.text_columns, rows, present)
    for row in filled:
        merge.add(row)
    if problems := merge.problems:
        more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        raise InputError("\n  ".join(["nothing was applied.", *problems[:SHOWN], *more]))
    lines = [
        dict(zip(LABEL_SCHEMA.names, (key, split, before, after), strict=True)) for (key, before), (split, after) in merge.known.items()
    ]
    return Applied(pa.Table.from_pylist(lines, LABEL_SCHEMA), merge.new, merge.present, merge.confirmed)


def find_rows(keys: set[str], texts: Sequence[str], schema: LabelSchema) -> dict[str, PresentRow]:
    """Return the rows of ``data/raw`` with these hashes."""
    wanted = pa.array(sorted(keys), pa.string())
    found: dict[str, PresentRow] = {}
    for split in SPLITS:
        for batch in SplitReader.open(RAW, split, "download").batches([*texts, LABELS]):
            hashes = row_keys([batch[name] for name in texts])
            is_wanted = pc.is_in(hashes, value_set=wanted)
            chosen = batch.filter(is_wanted)
            for key, row in zip(hashes.filter(is_wanted).to_pylist(), chosen.to_pylist(), strict=True):
                one = found.setdefault(key, PresentRow(tuple(row[name] for name in texts)))
                one.labels.add(label_text(row[LABELS], schema))
    return found


class _Merge:
    """Adds corrections to the present ones, row by row, and collects the problems."""

    def __init__(
        self, path: Path, schema: LabelSchema, texts: Sequence[str], rows: Mapping[str, PresentRow], corrections: pa.Table
    ) -> None:
        self.path, self.schema, self.texts, self.rows = path, schema, texts, rows
        self.names = column_names(texts)
        self.known = {(one["key"], one["before"]): (one["split"], one["after"]) for one in corrections.to_pylist()}
        self.origins: dict[tuple[str, str], list[str]] = defaultdict(list)  # the labels of the source that became a label of data/raw
        for (key, before), (_, after) in self.known.items():
            self.origins[key, after].append(before)
        self.lines: dict[tuple[str, str], tuple[int, str]] = {}
        self.problems: list[str] = []
        self.new = self.present = self.confirmed = 0

    def add(self, row: FilledRow) -> None:
        """Add the correction of a row, or its problem."""
        labels = self._labels(row)
        if labels is None or not self._is_row(row):
            return
        label, correct = labels
        now = self.rows[row.key].labels
        line, other = self.lines.setdefault((row.key, label), (row.line, correct))
        decided = self.known.get((row.key, label), ("", correct))[1]
        if other != correct:
            self._refuse(row, self.names[CORRECT], f"{correct!r}, but {other!r} in line {line:,}, for the same texts. Decide")
        elif label == correct:
            self.confirmed += 1
        elif label not in now and correct not in now:
            self._refuse(row, self.names[LABEL], f"{label!r}, but {listed(sorted(now))} in {RAW}. Write the review again")
        elif label in now and decided != correct:
            self._refuse(row, self.names[CORRECT], f"{correct!r}, but {label_file()} has {decided!r}. Run `dvc repro`, and review again")
        elif label not in now or line != row.line or (row.key, label) in self.known or self._waits(row.key, correct, now):
            self.present += 1
        else:
            self._correct(row, label, correct)

    def _waits(self, key: str, correct: str, now: set[str]) -> bool:
        """Return True if the correction is listed, by the label of the source, and not in ``data/raw`` yet."""
        return correct not in now and any(before not in now for before in self.origins[key, correct])

    def _correct(self, row: FilledRow, label: str, correct: str) -> None:
        self.new += 1
        for before in self.origins.get((row.key, label)) or [label]:  # the source has the first label, whatever was corrected since
            if before == correct:
                del self.known[row.key, before]
            else:
                self.known[row.key, before] = (row.split, correct)

    def _labels(self, row: FilledRow) -> tuple[str, str] | None:
        names = self.schema.names
        try:
            label, correct = (label_text(value, self.schema) for value in (row.label, row.correct))
        except ValueError:
            self._refuse(row, self.names[CORRECT], f"{row.correct!r} is not a number")
            return None
        if names is not None and correct not in names:
            self._refuse(row, self.names[CORRECT], f"{correct!r} is not one of {listed(names)}{nearest(correct, names)}")
            return None
        return label, correct

    def _is_row(self, row: FilledRow) -> bool:
        if row.key not in self.rows:
            self._refuse(row, self.names[KEY], f"{row.key!r} is no row of {RAW}. It may have changed in a spreadsheet, or the data since")
            return False
        for name, cell, text in zip(self.texts, row.texts, self.rows[row.key].texts, strict=True):
            if not is_same_text(cell, text):
                self._refuse(row, name, f"{cell[:40]!r} is not the text of this {self.names[KEY]}. Sort all columns together, or none")
                return False
        return True

    def _refuse(self, row: FilledRow, column: str, problem: str) -> None:
        self.problems.append(f"{self.path}, line {row.line:,}, column {column!r}: {problem}.")


def is_same_text(cell: str, text: str) -> bool:
    """Return True if a cell of a spreadsheet has a text: white space may differ, and a long text may be cut."""
    one, other = normalized(pa.array([cell, text], pa.string())).to_pylist()
    return one == other or (len(cell) >= CUT and other.startswith(one))
