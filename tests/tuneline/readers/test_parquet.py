import contextlib
import gzip
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tuneline.readers.parquet import open_parquet
from tuneline.readers.rows import MB, Limits
from tuneline.runtime.errors import DataError, UnreadableError

TABLE = pa.table({"text": [f"text {row}" for row in range(25)], "id": range(25)})


def content_of(table, folder):
    pq.write_table(table, folder / "made")
    return (folder / "made").read_bytes()


def read(path, rows=10, columns=None, **limits):
    with open_parquet(path, limits=Limits(**limits)) as file:
        return list(file.batches(rows, columns or file.schema.names))


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
    with pytest.raises(DataError, match=r"a\.parquet: .*damaged"):
        read(tmp_path / "a.parquet")


def test_file_that_the_system_does_not_read_is_not_called_damaged(tmp_path):
    with pytest.raises(UnreadableError, match=r"a\.parquet .*No such"):
        read(tmp_path / "a.parquet")


def test_damage_that_is_found_while_reading_is_named(tmp_path):
    content = bytearray(content_of(TABLE, tmp_path))
    content[4:200] = bytes(196)
    (tmp_path / "a.parquet").write_bytes(bytes(content))
    with (
        open_parquet(tmp_path / "a.parquet") as file,
        pytest.raises(DataError, match=r"a\.parquet: .*damaged"),
    ):
        list(file.batches(10, ["text"]))


@pytest.mark.parametrize(
    ("damage", "message"),
    [(lambda packed: packed[:-20], "ends too early"), (lambda packed: b"xx" + packed, "not a gzip file")],
)
def test_damaged_gzip_file_is_refused(tmp_path, damage, message):
    (tmp_path / "a.parquet.gz").write_bytes(damage(gzip.compress(content_of(TABLE, tmp_path))))
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.parquet.gz")


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"a\.parquet"):
        read(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    "options", [{}, {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}], ids=str
)
def test_row_group_that_decodes_to_more_than_the_limit_is_refused(tmp_path, options):
    """A cell that is stored once, or as the difference to the row before, is small in the file."""
    pq.write_table(
        pa.table({"text": ["a" * 100_000] * 200}), tmp_path / "in.parquet", compression="zstd", **options
    )
    assert (tmp_path / "in.parquet").stat().st_size < 1000
    message = r"in\.parquet, row group 1: its rows take more than 10 MB \(data\.files\.max_row_group_mb\)"
    with pytest.raises(DataError, match=message):
        read(tmp_path / "in.parquet", row_group=10 * MB)


def test_row_group_that_is_larger_than_the_limit_on_disk_is_refused(tmp_path):
    pq.write_table(
        pa.table({"text": [f"{row:0100}" for row in range(20_000)]}),
        tmp_path / "in.parquet",
        use_dictionary=False,
    )
    with pytest.raises(DataError, match=r"row group 1: .* 1 MB"):
        read(tmp_path / "in.parquet", row_group=MB)


def test_rows_of_all_row_groups_together_have_a_limit(tmp_path):
    pq.write_table(
        pa.table({"text": [f"{row:0100}" for row in range(20_000)]}),
        tmp_path / "in.parquet",
        row_group_size=1000,
    )
    with pytest.raises(DataError, match="max_unpacked_mb"):
        read(tmp_path / "in.parquet", row_group=MB, unpacked=MB)
    assert (
        sum(batch.num_rows for batch in read(tmp_path / "in.parquet", row_group=MB, unpacked=3 * MB))
        == 20_000
    )


def test_too_long_cell_is_refused_with_its_row_and_column(tmp_path):
    texts = [f"text {row}" for row in range(25)]
    texts[17] = "é" * 101
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet", row_group_size=10)
    message = (
        r"in\.parquet, row 18, column 'text': 101 characters, more than 100"
        r" \(data\.files\.max_cell_characters\)"
    )
    with pytest.raises(DataError, match=message):
        read(tmp_path / "in.parquet", cell=100)
    assert len(read(tmp_path / "in.parquet", cell=101)) == 3  # 101 characters are 202 bytes


def test_gzip_file_that_unpacks_to_more_than_the_limit_is_refused(tmp_path):
    (tmp_path / "in.parquet.gz").write_bytes(gzip.compress(bytes(3 * MB)))
    with pytest.raises(DataError, match=r"in\.parquet\.gz: .*2 MB"):
        read(tmp_path / "in.parquet.gz", unpacked=2 * MB)


def test_columns_of_dictionaries_are_decoded(tmp_path):
    table = pa.table({"text": pa.array(["a", "b", None, "a"]).dictionary_encode()})
    pq.write_table(table, tmp_path / "in.parquet")
    (batch,) = read(tmp_path / "in.parquet")
    assert (batch.schema.field("text").type, batch["text"].to_pylist()) == (
        pa.string(),
        ["a", "b", None, "a"],
    )


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.binary()])
def test_other_types_of_text_are_read_and_have_the_same_limits(tmp_path, kind):
    table = pa.table({"text": pa.array(["a" * 2000, None, "b"] * 5000, kind)})
    pq.write_table(table, tmp_path / "in.parquet")
    assert (
        pa.Table.from_batches(read(tmp_path / "in.parquet", rows=1000))["text"].to_pylist()
        == table["text"].to_pylist()
    )
    with pytest.raises(DataError, match=r"row 1, .* 1,999"):
        read(tmp_path / "in.parquet", cell=1999)


def test_text_that_is_not_utf_8_is_refused(tmp_path):
    content = content_of(pa.table({"text": ["fine", "caf?"]}), tmp_path).replace(b"caf?", b"caf\xe9")
    (tmp_path / "in.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"rows 1 to 2, .*'text'"):
        read(tmp_path / "in.parquet")


def test_lists_are_refused_only_where_they_are_read(tmp_path):
    """One row of a list may hold a thousand million numbers, in a file of some hundred bytes."""
    pq.write_table(pa.table({"text": ["a"], "tags": [[1, 2]]}), tmp_path / "in.parquet")
    assert read(tmp_path / "in.parquet", columns=["text"])[0].num_rows == 1
    with pytest.raises(DataError, match="'tags' holds list"):
        read(tmp_path / "in.parquet", columns=["text", "tags"])


def test_damaged_file_gives_rows_or_one_error(tmp_path):
    """Whatever byte is wrong, in the file or in its gzip file."""
    generator = random.Random(0)
    made = [content_of(TABLE, tmp_path)]
    for position in range(600):
        content = bytearray(made[0] if position % 2 else gzip.compress(made[0], mtime=0))
        for _ in range(generator.randrange(1, 4)):
            content[generator.randrange(len(content))] = generator.randrange(256)
        path = tmp_path / ("in.parquet" if position % 2 else "in.parquet.gz")
        path.write_bytes(content)
        with contextlib.suppress(DataError):
            [batch.to_pylist() for batch in read(path)]


ROWS_IN_FOOTER = bytes.fromhex("16c801")
"""100 as an i64 of Thrift's compact protocol: its type for a following field, then the number as a zigzag
varint."""


def forged(content, **numbers):
    """Return a Parquet file of one row group with 100 rows and one column whose footer has other numbers
    (bytes in hexadecimal)."""
    length = int.from_bytes(content[-8:-4], "little")
    before_total, before_values, before_rows, rest = content[-8 - length : -8].split(ROWS_IN_FOOTER)
    footer = before_total
    for name, part in (("total", before_values), ("values", before_rows), ("rows", rest)):
        footer += b"\x16" + bytes.fromhex(numbers.get(name, "c801")) + part
    return content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


LARGEST = "feffffffffffffffff01"
"""2**63 - 1."""


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ({"total": "64"}, "its footer counts 50 rows, and its row groups have 100"),
        ({"total": LARGEST}, "its footer counts 9,223,372,036,854,775,807 rows, and its row groups have 100"),
        (
            {"total": "ca01", "rows": "ca01"},
            "its footer counts 101 rows for row group 1, and a column of it has 100 values",
        ),
        (
            {"total": "64", "rows": "64"},
            "its footer counts 50 rows for row group 1, and a column of it has 100 values",
        ),
        (
            {"total": "ca01", "rows": "ca01", "values": "ca01"},
            "its footer counts 101 rows for row group 1, and it has 100",
        ),
        (
            {"total": "01", "rows": "01", "values": "01"},
            "its footer counts -1 rows for row group 1, and a column of it has -1 values",
        ),
        ({"total": LARGEST, "rows": LARGEST, "values": LARGEST}, "its rows take more"),
    ],
)
def test_file_whose_footer_counts_other_rows_than_there_are_is_refused(tmp_path, numbers, problem):
    content = content_of(pa.table({"text": [f"text {row}" for row in range(100)]}), tmp_path)
    assert forged(content) == content
    (tmp_path / "a.parquet").write_bytes(forged(content, **numbers))
    with pytest.raises(DataError, match=problem):
        read(tmp_path / "a.parquet")
