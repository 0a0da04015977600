"""Which character a column of numbers has before the decimals, by its first rows."""

import itertools
from dataclasses import replace

from tuneline.readers.label_values import DECIMAL_COMMA, plain_text
from tuneline.readers.rows import RowProblem
from tuneline.readers.tables import Input, open_table
from tuneline.sniffing.delimited import SNIFFED_RECORDS


def with_decimal(source: Input, column: str) -> Input:
    """Return a file with a decimal comma, if numbers of a column have one and none has a point.

    ``tuneline init`` decides the same by all rows, when it chooses the column of the labels.

    Raises:
        DataError: The file cannot be read, or lacks the column.
    """
    texts = []
    with open_table(source) as table:
        for _, row in itertools.islice(table.rows({column: ""}, everywhere=()), SNIFFED_RECORDS):
            if not isinstance(row, RowProblem):
                texts.append(plain_text(row[0]) or "")
    has_commas = any(DECIMAL_COMMA.fullmatch(text) for text in texts)
    if not has_commas or any("." in text for text in texts):
        return source
    return replace(source, layout=replace(source.layout, decimal=","))
