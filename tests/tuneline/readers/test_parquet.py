import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tuneline.errors import DataError, UnreadableError
from tuneline.readers.parquet import open_parquet, read_batches

TABLE = pa.table({"text": [f"text {row}" for row in range(25)], "id": range(25)})


def content_of(table, folder):
    pq.write_table(table, folder / "made")
    return (folder / "made").read_bytes()


def read(path, rows=10, columns=None):
    with open_parquet(path) as file:
        return list(read_batches(file, path, rows, columns))


@pytest.mark.parametrize(("name", "pack"), [("a.parquet", bytes), ("a.parquet.gz", gzip.compress)])
def test_plain_and_gzip_files_are_read_in_batches(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(content_of(TABLE, tmp_path)))
    batches = read(tmp_path / name)
    assert [batch.num_rows for batch in batches] == [10, 10, 5]
    assert pa.Table.from_batches(batches).equals(TABLE)


def test_only_the_named_columns_are_read(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", columns=["id"])[0].schema.names == ["id"]


@pytest.mark.parametrize("content", [b"", b"text,label\n", b"PAR1" + b"x" * 40])
def test_file_that_is_not_parquet_is_refused(tmp_path, content):
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.parquet: not a Parquet file, or a damaged one: "):
        read(tmp_path / "a.parquet")


def test_file_that_the_system_does_not_read_is_not_called_damaged(tmp_path):
    with pytest.raises(UnreadableError, match=r"a\.parquet cannot be read: .*No such file"):
        read(tmp_path / "a.parquet")


def test_damage_that_is_found_while_reading_is_named(tmp_path):
    content = bytearray(content_of(TABLE, tmp_path))
    content[4:200] = bytes(196)
    (tmp_path / "a.parquet").write_bytes(bytes(content))
    with (
        open_parquet(tmp_path / "a.parquet") as file,
        pytest.raises(DataError, match=r"a\.parquet: not a Parquet file, or a damaged one: "),
    ):
        list(read_batches(file, tmp_path / "a.parquet", 10))


@pytest.mark.parametrize(
    ("damage", "message"), [(lambda packed: packed[:-20], "ends too early"), (lambda packed: b"xx" + packed, "not a gzip file")]
)
def test_damaged_gzip_file_is_refused(tmp_path, damage, message):
    (tmp_path / "a.parquet.gz").write_bytes(damage(gzip.compress(content_of(TABLE, tmp_path))))
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.parquet.gz")


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"a\.parquet"):
        read(tmp_path / "a.parquet")
