"""How hand-over files are written."""

from pathlib import Path

from tuneline.core.records import Record
from tuneline.runtime.atomic_files import write_json


def write_record(path: Path, record: Record) -> None:
    """Write the file of a record atomically.

    Raises:
        DiskError: The disk is full, or the folder cannot be created or written.
    """
    write_json(path, record.model_dump(mode="json"))
