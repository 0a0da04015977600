"""Splits of several files: read as one, and a file that is missing, damaged or of another version is named
with what to do."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tuneline.core.runtime.errors import DataError, StageError
from tuneline.core.stage.tables import SplitReader, shard_file, split_files, write_batches
from tuneline.model.tasks import Classification
from tuneline.model.tasks.columns import raw_schema

SCHEMA = raw_schema(["text"], Classification(("ham", "spam")))


def write(path: Path, first: int, rows: int, schema: pa.Schema = SCHEMA) -> Path:
    """Writes rows in row groups of two."""
    table = pa.table(
        [[f"text {row}" * 50 for row in range(first, first + rows)], [0] * rows, range(first, first + rows)],
        schema=schema,
    )
    write_batches(path, schema, table.to_batches(max_chunksize=2))
    return path


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    """The three files of a split of 10 rows."""
    return [
        write(shard_file(tmp_path, "train", number, 3), 4 * number, min(4, 10 - 4 * number))
        for number in range(3)
    ]


def reader(folder: Path) -> SplitReader:
    return SplitReader.open(folder, "train", "download")


def damage(path: Path, group: int) -> None:
    """Overwrites the texts of one row group; the footer stays."""
    column = pq.read_metadata(path).row_group(group).column(0)
    content = bytearray(path.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(content)


def test_files_of_a_split_are_read_as_one(shards, tmp_path):
    write(tmp_path / "train2-00000-of-00002.parquet", 0, 1)
    split = reader(tmp_path)
    assert list(split.paths) == shards
    assert (split.rows, split.starts.tolist()) == (10, [0, 4, 8, 10])
    assert split.read(["idx"])["idx"].to_pylist() == list(range(10))
    assert [batch.num_rows for batch in split.batches(at_most=3)] == [3, 1, 3, 1, 2]
    assert split.take(np.array([0, 3, 4, 9, 12]), ["idx"])["idx"].to_pylist() == [0, 3, 4, 9]
    assert split.place(5) == f"{shards[1]}, row 1"
    single = write(shard_file(tmp_path, "validation", 0, 1), 0, 3)
    assert split_files(tmp_path, "validation") == (single,)
    assert single.name == "validation.parquet"


def test_missing_shard_and_missing_split_are_named(shards, tmp_path):
    shards[1].unlink()
    with pytest.raises(DataError, match="`dvc checkout --force`"):
        reader(tmp_path)
    with pytest.raises(
        StageError,
        match="dvc repro download",
    ):
        SplitReader.open(tmp_path, "test", "download")


@pytest.mark.parametrize("name", ["train.parquet", "train-00000-of-00002.parquet"])
def test_files_of_two_versions_are_refused(name, shards, tmp_path):
    write(tmp_path / name, 0, 1)
    with pytest.raises(DataError, match="the split train are not complete, or are of two versions"):
        reader(tmp_path)


def test_damaged_shard_in_the_middle_is_named(shards, tmp_path):
    damage(shards[1], group=1)
    split = reader(tmp_path)
    message = (
        r"train-00001-of-00003\.parquet cannot be read: .*\n  It is damaged: `dvc checkout"
        r" --force` restores it"
    )
    assert split.rows == 10, "the footers are whole"
    with pytest.raises(DataError, match=message):
        list(split.batches(at_most=2))
    with pytest.raises(DataError, match=r"00001-of-00003\S* cannot"):
        split.read()  # one batch has both row groups
    with pytest.raises(DataError, match=message):
        split.take(np.array([7]), ["text"])
    assert split.take(np.array([5]), ["idx"])["idx"].to_pylist() == [5], "the rows before are read"
    shards[1].write_bytes(shards[1].read_bytes()[:-20])
    for use in (
        lambda: reader(tmp_path).rows,
        lambda: list(reader(tmp_path).batches()),
        lambda: reader(tmp_path).take(np.arange(9), ["idx"]),
    ):
        with pytest.raises(DataError, match=r"\n  It is damaged"):
            use()


@pytest.mark.parametrize(
    "schema",
    [
        raw_schema(["text"], Classification(("ham", "eggs"))),
        raw_schema(["body"], Classification(("ham", "spam"))),
    ],
)
def test_shard_with_other_classes_or_columns_is_named(schema, shards, tmp_path):
    write(shards[2], 8, 2, schema)
    with pytest.raises(
        DataError,
        match=(
            r"train-00002-of-00003\.parquet has other columns or classes than train-00000.*\n  Write both"
            r" anew"
        ),
    ):
        _ = reader(tmp_path).rows
