"""The rows that are sent: texts of a file, as the model's columns name them."""

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from tuneline.onnx.records import ExportRecord
from tuneline.onnx.usage import EXPORT_RECORD
from tuneline.rows.reading.rows import LEAVE_OUT, BadRows
from tuneline.rows.reading.tables import open_table
from tuneline.serve.batch import input_to_score
from tuneline.serve.columns import InputColumns
from tuneline.serve.streaming import good_rows

MOST_ROWS = 1000


def read_rows(model: Path, file: Path) -> list[tuple[str, ...]]:
    """Return the first rows of a file, without those that cannot be predicted."""
    text_columns = ExportRecord.read(model / EXPORT_RECORD).text_columns
    source = input_to_score(file, model)
    rows = []
    with open_table(source) as table:
        bad = BadRows(source.name, source.unit, LEAVE_OUT)
        for row in islice(good_rows(table, InputColumns(tuple(text_columns)), bad), MOST_ROWS):
            rows.append(row.texts)
    return rows


def write_bodies(rows: Sequence[tuple[str, ...]], path: Path) -> None:
    """Write the body of the request for each row, one per line."""
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(body(row)) + "\n")


def body(row: tuple[str, ...]) -> dict[str, str | list[str]]:
    """Return the request for a row."""
    if len(row) == 1:
        return {"inputs": row[0]}
    return {"inputs": list(row)}
