"""Results of the flow ``score`` that no model has made."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flows.inbox import Incoming, Outbox
from tuneline.predict.scored import METADATA, ScoredRecord
from tuneline.runtime.atomic_files import replace_file

OLD, NEW = "0" * 40, "1" * 40
"""Commits of models."""


def mark_scored(
    outbox: Outbox, incoming: Incoming, number: int = 1, commit: str = OLD, **record: Any
) -> ScoredRecord:
    """Writes a result of one row."""
    values = {
        **incoming.as_record(),
        "sha256": incoming.sha256,
        "version": "v0.1.0",
        "commit": commit,
        "rows": 1,
        "seen": None,
    }
    made = ScoredRecord(**values, **record)
    schema = pa.schema([("row", pa.int64())], metadata={METADATA: made.model_dump_json()})
    with replace_file(outbox.scored(incoming.stem, number)) as partial:
        pq.write_table(pa.table({"row": [1]}).cast(schema), partial)
    return made
