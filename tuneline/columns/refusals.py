"""Why a column is no label, with what to do."""

from collections.abc import Sequence

from tuneline.columns.classes import holds_texts
from tuneline.columns.label_groups import indicator_words
from tuneline.columns.reading import Column
from tuneline.runtime.errors import DataError
from tuneline.runtime.wording import listed

OTHER_LABEL = "Name the column of the label: --label COLUMN"


def check_label(column: Column) -> None:
    """Refuse a column that is the same in all rows.

    Raises:
        DataError: It has one value only, or none.
    """
    values = list(column.values)
    if len(values) < 2 and not column.profile.many and not column.profile.nested:
        value = values[0] if values else ""
        raise DataError(
            f"Column {column.name!r} has the value {value!r} in all {column.profile.filled:,} rows: there is"
            " nothing to learn.",
            OTHER_LABEL,
        )


def refuse_as_label(column: Column) -> None:
    """Refuse a column that is called a label, and from which nothing can be learned.

    Raises:
        DataError: It has one value, numbers the rows, or holds texts.
    """
    if not column.profile.filled:
        return
    check_label(column)
    place = f"Column {column.name!r}"
    if column.profile.numbered and column.profile.filled > 1:
        raise DataError(
            f"{place} numbers the rows: it is no label.",
            f"{OTHER_LABEL}; or --label {column.name!r} to learn it all the same",
        )
    if holds_texts(column):
        distinct = len(column.values)
        problem = (
            f"{place} has {distinct:,} distinct values of {column.profile.mean_words:.0f} words in"
            f" {column.profile.filled:,} rows: it looks like the text, not the label."
        )
        raise DataError(problem, f"{OTHER_LABEL} --text COLUMN")


def no_label(columns: Sequence[Column]) -> DataError:
    """Return the error for a file without a column that looks like a label."""
    hint = "Name it: --label COLUMN"
    nested = []
    for column in columns:
        if column.profile.nested:
            nested.append(column.name)
    if nested:
        hint = f"{listed(nested)}: several labels are a flat list of names, or one text. {hint}"
    return DataError("No column looks like a label: few distinct values, or numbers.", hint)


def not_indicators(columns: Sequence[Column]) -> DataError:
    """Return the error for several columns of which only some have 0 and 1."""
    column = next(column for column in columns if indicator_words(column) is None)
    values = [value for value, _ in column.values.most_common()]
    return DataError(
        f"Column {column.name!r} has more values than 0 and 1: {listed(values, 5)}.",
        "Several --label name a column of 0 and 1 for each label, or columns with a name or nothing in each.",
    )
