"""Files as flow ``score`` leaves them: predictions with their record, and the archived input."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tuneline.core.hashes import file_hash
from tuneline.predict.scored import METADATA, ScoredRecord
from tuneline.predict.writing import OutputColumns, ParquetWriter
from tuneline.readers.inputs import Row
from tuneline.tasks import task_with_names

LABELS = ("billing", "parcel")


def write_scored(
    root: Path,
    name: str,
    content: str,
    outputs: Sequence[Sequence[float]],
    *,
    age: int = 0,
    labels=LABELS,
    skipped=(),
    kind: str | None = None,
) -> Path:
    """Write the archived input ``name`` and its predictions.

    Args:
        root: The repository.
        name: Name of the input.
        content: The input.
        outputs: Probabilities, or the predicted number, of each row that was not skipped.
        age: Seconds since it was scored.
        labels: Class names; ``None`` for a regression.
        skipped: Numbers of rows without a prediction.
        kind: Kind of task, if the class names do not tell it.
    """
    archived, target = root / "data/archive" / name, root / "data/scored" / f"{name}.parquet"
    for path in (archived, target):
        path.parent.mkdir(parents=True, exist_ok=True)
    archived.write_text(content)
    raw = root / "predictions.parquet"
    numbers = [number for number in range(1, len(outputs) + len(skipped) + 1) if number not in skipped]
    with raw.open("wb") as file:
        writer = ParquetWriter(OutputColumns(task_with_names(labels, kind), ()), file)
        writer.write([Row(number, (), {}) for number in numbers], np.array(outputs, np.float64))
        writer.close()
    found = archived.stat()
    record = ScoredRecord(
        path=name,
        size=found.st_size,
        mtime_ns=found.st_mtime_ns,
        sha256=file_hash(archived),
        version="v1",
        commit="0" * 40,
        rows=len(outputs),
        seen=None,
        archived=archived.relative_to(root).as_posix(),
    )
    table = pq.read_table(raw)
    table = table.append_column("model_version", pa.array(["v1"] * table.num_rows))
    with pq.ParquetWriter(target, table.schema) as parquet:
        parquet.write_table(table)
        parquet.add_key_value_metadata({METADATA: record.model_dump_json()})
    raw.unlink()
    os.utime(target, (1_700_000_000 - age,) * 2)
    return target


def texts(table: pa.Table) -> dict[object, str]:
    """Return the texts by id."""
    return dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))
