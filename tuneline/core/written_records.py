"""How hand-over files are written."""

import json
from pathlib import Path

from tuneline.core.records import Record
from tuneline.runtime.atomic_files import replace_file, write_json


def write_record(path: Path, record: Record) -> None:
    """Write the file of a record atomically.

    Raises:
        DiskError: The disk is full, or the folder cannot be created or written.
    """
    values = record.model_dump(mode="json")
    if not record.one_line:
        write_json(path, values)
        return
    with replace_file(path) as partial:
        partial.write_text(json.dumps(values) + "\n", encoding="utf-8")
