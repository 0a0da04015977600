"""Labels of several people for one text: in a column for each person, or in a row for each."""

import re
from collections import Counter
from collections.abc import Sequence

from tuneline.columns.reading import Column, LabelReading
from tuneline.params.data import LABELS_OF_COLUMNS

PERSON = re.compile(
    r"(.*[^a-z])?(annotator|annotation|rater|worker|coder|judge|labell?er)s?(id|name)?([^a-z].*)?"
)
"""Names of columns that say who labelled a row, or that have the labels of one person."""
VOTED = 4.0
"""Points of labels of several people."""
MOST_VOTED = 50
"""Largest number of distinct values in a column with the labels of one person."""
LEAST_SHARED = 0.6
"""Share of the cells of a column whose name the other columns have, too."""
LEAST_REPEATED = 0.1
"""Share of the rows with a name twice, from which the names of a row are no set: people agree."""
READ_FILE = '    import pandas; rows = pandas.read_csv("FILE.csv"{options})\n'


def names_person(name: str) -> bool:
    """Return True if a column is called after the people who label."""
    return PERSON.fullmatch(name.strip().lower()) is not None


def vote_reading(columns: Sequence[Column]) -> LabelReading | None:
    """Return the refusal of columns with the labels of one person each; ``None`` if fewer than two are so."""
    votes = []
    for column in columns:
        has_classes = not column.profile.nested and 1 < len(column.values) <= MOST_VOTED
        if names_person(column.key) and has_classes:
            votes.append(column)
    if len(votes) < 2 or not have_one_vocabulary(votes):
        return None
    return refused_votes(votes)


def have_one_vocabulary(columns: Sequence[Column]) -> bool:
    """Return True if the names of each column are names of the others, too."""
    for column in columns:
        others: set[str] = set()
        for other in columns:
            if other is not column:
                others.update(other.values)
        shared = column.count(others.__contains__)
        if shared < LEAST_SHARED * column.rows:
            return False
    return True


def repeated_names(columns: Sequence[Column]) -> list[str]:
    """Return the names that many rows have in several columns.

    Votes have several of them, a set has none, or the word for no label.
    """
    several = 0
    repeated: Counter[str] = Counter()
    for cells in zip(*(column.cells for column in columns), strict=True):
        names = Counter(cell.strip() for cell in cells if cell and cell.strip())
        if names.total() > 1:
            several += 1
        repeated.update(name for name, times in names.items() if times > 1)
    if repeated.total() <= LEAST_REPEATED * several:
        return []
    return list(repeated)


def votes_in_a_cell(column: Column) -> LabelReading:
    """Return the refusal of a column with the labels of several people in each cell."""
    return LabelReading(
        (column.name,),
        column.name,
        "classification",
        VOTED,
        "several per text, some of them equal",
        "labels of several people in a cell",
        coverage=column.coverage,
        refused="A model learns one label per text: write that of most people into a column called label.",
    )


def refused_votes(columns: Sequence[Column]) -> LabelReading:
    """Return the refusal of columns of which each has the labels of one person."""
    names = [column.name for column in columns]
    classes = set().union(*(column.values for column in columns))
    options = ", dtype=str"
    one_of_a_row = "mode(axis=1)[0]"
    if len(classes) > 2 and all(column.profile.is_numeric for column in columns):
        options = ""
        one_of_a_row = "mean(axis=1)"
    return LabelReading(
        tuple(names),
        LABELS_OF_COLUMNS,
        "classification",
        VOTED,
        f"{len(names)} per text",
        f"the labels of {len(names)} people",
        refused=(
            "A model learns one label per text, such as that of most people. Write a column with it:\n"
            + READ_FILE.format(options=options)
            + f'    rows.assign(label=rows[{names!r}].{one_of_a_row}).to_csv("one-label.csv", index=False)\n'
            f"  or learn the labels of one person: --label {names[0]}"
        ),
    )


def one_row_per_text(texts: Sequence[str], labels: Sequence[str], *, numbers: bool) -> str:
    """Return lines of Python that write each text once: with the label of most people, or the mean number."""
    options = ", dtype=str"
    one_of_a_text = "agg(lambda labels: labels.mode().get(0))"
    if numbers:
        options = ""
        one_of_a_text = "mean()"
    return (
        READ_FILE.format(options=options)
        + f'    rows.groupby({list(texts)!r})[{list(labels)!r}].{one_of_a_text}.to_csv("one-label.csv")'
    )
