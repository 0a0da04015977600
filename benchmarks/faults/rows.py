"""Data sets of the benchmark: rows in memory, where they come from, and how they are written as CSV files."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from tuneline.core.paths import SPLITS
from tuneline.rows.splits.sample import write_tickets

TICKETS = 2_000
"""Rows of the generated tickets."""
LABEL = "label"


class Row(NamedTuple):
    """One row of a file.

    Attributes:
        texts: The two texts.
        label: The label as the file writes it.
        encoding: Encoding of this row; files can be joined from several.
    """

    texts: tuple[str, str]
    label: str
    encoding: str = "utf-8"


Data = dict[str, list[Row]]
"""Rows by split."""


def text_columns(name: str) -> tuple[str, str]:
    """Return the names of the text columns of a data set."""
    return ("sentence1", "sentence2") if name == "mrpc" else ("subject", "body")


def read_mrpc(folder: Path) -> Data:
    """Read MRPC from GLUE's three TSV files, with class names instead of numbers."""
    names = {"0": "different", "1": "equivalent"}
    data = {}
    for split in SPLITS:
        with (folder / f"{split}.tsv").open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
        data[split] = [Row((row[3], row[4]), names[row[0]]) for row in rows]
    return data


def generate_tickets(rows: int = TICKETS, seed: int = 42) -> Data:
    """Generate the embedded sample without wrong labels, split 8 : 1 : 1."""
    tickets = [Row((ticket.subject, ticket.body), ticket.queue) for ticket in write_tickets(rows, 0.0, seed)]
    held_out = rows // 10
    return {
        "train": tickets[: -2 * held_out],
        "validation": tickets[-2 * held_out : -held_out],
        "test": tickets[-held_out:],
    }


def subsample(data: Data, share: float, generator: Random) -> Data:
    """Return a share of the rows of each split, drawn without replacement, in their order."""
    return {
        split: [
            rows[number] for number in sorted(generator.sample(range(len(rows)), round(share * len(rows))))
        ]
        for split, rows in data.items()
    }


def write_files(data: Data, columns: tuple[str, str], folder: Path) -> None:
    """Write one CSV file per split, each row in its encoding.

    The label is the first column, so a second header or BOM becomes a label.
    """
    folder.mkdir(parents=True)
    for split, rows in data.items():
        (folder / f"{split}.csv").write_bytes(b"".join(_lines(rows, columns)))


def _lines(rows: list[Row], columns: tuple[str, str]) -> Iterator[bytes]:
    for row in (Row(columns, LABEL), *rows):
        line = io.StringIO()
        csv.writer(line).writerow((row.label, *row.texts))
        yield line.getvalue().encode(row.encoding)
