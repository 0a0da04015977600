"""Texts that are in several rows: one row for each label of a text, or a text that is repeated.

A sample of the texts is followed through the whole file, whatever its size: all rows of a text are in the
sample, or none (the texts with the smallest hashes; Gibbons, "Distinct Sampling for Highly-Accurate Answers",
2001).
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tuneline.cli.init.row_file import RowFile
from tuneline.columns.annotators import one_row_per_text
from tuneline.columns.choice import ColumnChoice
from tuneline.columns.doubts import Alternative, ColumnDoubt, NamedColumns
from tuneline.columns.reading import LabelReading
from tuneline.core.task_kinds import SET_KINDS
from tuneline.params.data import LabelSetsParams
from tuneline.runtime.errors import DataError
from tuneline.runtime.wording import listed

MOST_TEXTS = 50_000
"""Texts of the sample."""
CLEAR_SHARE = 0.2
"""Share of texts with several labels from which each row is one label of its text."""
POSSIBLE_SHARE = 0.05
"""The same, from which it is possible: below, a few texts have contradicting labels."""
MOST_EQUAL = 0.1
"""Largest share of repetitions with a label that the text has already.

Rows of several people, or of copies, repeat a text with the same label.
"""
MOST_EQUAL_POSSIBLE = 0.3
"""The same, up to which it is possible."""


@dataclass(frozen=True)
class RepeatedTexts:
    """How often texts are repeated.

    Attributes:
        texts: Texts of the sample.
        several: Texts with several labels.
        repetitions: Rows beyond the first row of each text.
        equal: Repetitions with a label that the text has already.
    """

    texts: int
    several: int
    repetitions: int
    equal: int

    @classmethod
    def count(cls, rows: Iterable[tuple[str, str]], most_texts: int = MOST_TEXTS) -> "RepeatedTexts":
        """Count rows with a text and a label."""
        sample: dict[int, Counter[str]] = {}
        step = 1  # texts whose hash is a multiple of it are in the sample
        for text, label in rows:
            key = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
            if key % step:
                continue
            sample.setdefault(key, Counter())[label] += 1
            if len(sample) > most_texts:
                step *= 2
                sample = {key: labels for key, labels in sample.items() if key % step == 0}

        rows_of_sample = sum(labels.total() for labels in sample.values())
        pairs = sum(len(labels) for labels in sample.values())
        several = sum(len(labels) > 1 for labels in sample.values())
        return cls(len(sample), several, rows_of_sample - len(sample), rows_of_sample - pairs)

    @property
    def share(self) -> float:
        """Share of texts with several labels."""
        return self.several / max(self.texts, 1)

    @property
    def equal_share(self) -> float:
        """Share of the repetitions with a label that the text has already."""
        return self.equal / max(self.repetitions, 1)


def repeated_texts(file: RowFile, decision: ColumnChoice) -> RepeatedTexts:
    """Count how often the texts of a file are repeated, and with how many labels."""
    return RepeatedTexts.count(_labelled_texts(file, decision))


def with_rows(
    file: RowFile, repeated: RepeatedTexts, decision: ColumnChoice, named: NamedColumns, people: Sequence[str]
) -> ColumnChoice:
    """Return the decision, or that on several labels per text if the file has a row for each label.

    Where the rows of a text can be all of its labels or contradict each other, the decision has a doubt. They
    can be both where columns, ``people``, say who labelled a row.
    """
    reading = _reading_of_rows(decision, repeated)
    is_required = named.task in SET_KINDS
    if repeated.share >= CLEAR_SHARE and repeated.equal_share <= MOST_EQUAL and not people:
        return decision.with_reading(reading)
    if repeated.share >= POSSIBLE_SHARE and repeated.equal_share <= MOST_EQUAL_POSSIBLE:
        if is_required:
            return decision.with_reading(reading)
        several = replace(named, label=(decision.label_column,), task=SET_KINDS[0])
        one = replace(named, label=(decision.label_column,), task=decision.task)
        problem = (
            f"{repeated.share:.0%} of the texts are in several rows with different labels: these can be all"
            " labels of a text, or contradict each other"
        )
        if people:
            problem += f", as {listed(people)} names who labelled a row"
        answers = (
            Alternative(decision.reading.trains, decision.reading.options, one),
            Alternative("all labels of a text, joined", reading.options, several),
        )
        return replace(decision, doubt=decision.doubt or ColumnDoubt(problem, answers))
    if is_required:
        raise DataError(
            f"{file.path}: column {decision.label_column!r} has one label per row, and no text is in several"
            " rows with different labels.",
            "Name the column of the labels (--label COLUMN) and what separates them (--separator ';'), or a"
            " column of 0 and 1 for each label (--label A --label B)",
        )
    return decision


def _reading_of_rows(decision: ColumnChoice, repeated: RepeatedTexts) -> LabelReading:
    """Return the reading as one row for each label of a text."""
    per_text = (repeated.texts + repeated.repetitions - repeated.equal) / max(repeated.texts, 1)
    return replace(
        decision.reading,
        task=SET_KINDS[0],
        trains=f"{per_text:.1f} labels per text, in one row for each label",
        why="in one row for each label",
        sets=LabelSetsParams(layout="rows"),
    )


MANY_ROWS = 1.5
"""Mean rows of a text from which several people may have labelled it."""


def people_note(repeated: RepeatedTexts, people: Sequence[str], decision: ColumnChoice) -> list[str]:
    """Return a note if the rows of a text look like the labels of several people.

    Args:
        repeated: How often texts are repeated.
        people: The columns that say who labelled a row.
        decision: The columns and the task.
    """
    rows = 1 + repeated.repetitions / max(repeated.texts, 1)
    is_joined = decision.sets is not None and decision.sets.layout == "rows"
    if is_joined or rows < MANY_ROWS or repeated.share < POSSIBLE_SHARE:
        return []
    who = "which can be those of several people"
    if people:
        who = f"of several people, whom {listed(people)} names"
    lines = one_row_per_text(
        decision.text_columns, decision.label_columns, numbers=decision.task == "regression"
    )
    return [
        f"! {rows:.1f} labels per text, {who}: they differ in {repeated.share:.0%} of the"
        " texts. All rows of a text are in one split, but no model is right on them, and the check"
        f" conflicting_labels will fail. Write each text once, with one label:\n{lines}\n"
        "    tuneline init one-label.csv"
    ]


def _labelled_texts(file: RowFile, decision: ColumnChoice) -> Iterable[tuple[str, str]]:
    """Yield text and label of the rows that have both."""
    texts = len(decision.text_columns)
    for row in file.rows([*decision.text_columns, *decision.label_columns]):
        name = "\0".join((cell or "").strip() for cell in row[texts:])
        text = "\0".join(cell or "" for cell in row[:texts])
        if name.strip("\0") and text.strip("\0 "):
            yield text, name
