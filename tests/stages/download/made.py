"""Small files and parameters for the tests of the sources."""

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests import params

Content = str | bytes | list[dict[str, Any]] | None

TRAIN = "text,label\nfree money,spam\nsee you at six,ham\nyou won,spam\nlunch?,ham\n"
VALIDATION = "text,label\na prize for you,spam\nsee you,ham\n"
TEST = "text,label\nwin,spam\nno lunch,ham\n"
GOOD: dict[str, Content] = {"train.csv": TRAIN, "validation.csv": VALIDATION, "test.csv": TEST}


def write_source(folder: Path, files: Mapping[str, Content]) -> None:
    """Writes files by name: text and bytes as they are, rows as Parquet; text and rows are packed when the
    name ends in .gz."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if content is None:
            continue
        whole = (
            content
            if isinstance(content, bytes)
            else content.encode()
            if isinstance(content, str)
            else parquet(content)
        )
        pack = name.endswith(".gz") and not isinstance(content, bytes)
        (folder / name).write_bytes(gzip.compress(whole) if pack else whole)


def parquet(rows: list[dict[str, Any]]) -> bytes:
    """Rows as a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


def write_params(data: Mapping[str, Any], **sections: Any) -> None:
    """Writes ``params.yaml`` for files with the columns text and label."""
    values = {"source": "files", "text_columns": ["text"], "label_column": "label", **data}
    params.write_params(Path(), data=values, **sections)
