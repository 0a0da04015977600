"""How a column of numbers is written, by the first rows of a file."""

import itertools
from dataclasses import replace

from tuneline.columns.numbers import numbers_of
from tuneline.columns.profiles import profile
from tuneline.columns.reading import Column
from tuneline.readers.label_values import plain_text
from tuneline.readers.rows import RowProblem
from tuneline.readers.tables import Input, open_table
from tuneline.sniffing.delimited import SNIFFED_RECORDS


def with_numbers_of(source: Input, column: str) -> Input:
    """Return a file with numbers as a column writes them: the decimal mark, that of thousands, and a unit.

    ``tuneline init`` decides the same by all rows, when it chooses the column of the labels. Where two ways
    are possible, the file is taken as it is.

    Raises:
        DataError: The file cannot be read, or lacks the column.
    """
    cells = []
    with open_table(source) as table:
        for _, row in itertools.islice(table.rows({column: ""}, everywhere=()), SNIFFED_RECORDS):
            if not isinstance(row, RowProblem):
                cells.append((plain_text(row[0]),))
    (counted,) = profile([column], cells)
    found = numbers_of(Column(counted, counted.values))
    if len(found) != 1:
        return source
    numbers = found[0].format
    layout = replace(source.layout, decimal=numbers.decimal, thousands=numbers.thousands, unit=numbers.unit)
    return replace(source, layout=layout)
