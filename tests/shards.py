"""Splits in shards: the same rows in files of a few."""

from pathlib import Path

from tuneline.core.paths import SPLITS
from tuneline.core.stage.tables import SplitReader, shard_file, write_table


def into_shards(folder: Path, rows: int) -> None:
    """Divide the splits in a folder into files of at most ``rows`` rows each."""
    for split in SPLITS:
        if found := SplitReader.find(folder, split):
            table, count = found.read(), -(-found.rows // rows)
            for path in found.paths:
                path.unlink()
            for number in range(count):
                write_table(table.slice(number * rows, rows), shard_file(folder, split, number, count))
