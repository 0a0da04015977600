"""Parquet files: batches of bounded size, types, damage."""

import contextlib
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tuneline.core.runtime.errors import DataError
from tuneline.rows.reading.formats import PARQUET
from tuneline.rows.reading.rows import STOP, BadRows
from tuneline.rows.reading.tables import open_table

TABLE = pa.table({"text": [f"text {row}" for row in range(25)], "id": range(25)})


def batches(path, columns=("text",)):
    source = PARQUET.usual(path)
    with open_table(source) as table:
        return list(table.batches(list(columns), BadRows(str(path), "row", STOP)))


def values(path):
    return [value for batch in batches(path) for value in batch.columns["text"].to_pylist()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "in.parquet"


def test_rows_of_all_groups_are_read_with_their_numbers(path):
    pq.write_table(TABLE, path, row_group_size=10)
    assert values(path) == TABLE["text"].to_pylist()
    positions = [position for batch in batches(path) for position in batch.positions]
    assert positions == list(range(1, 26))
    with open_table(PARQUET.usual(path)) as table:
        assert (table.total, table.names()) == (25, ["text", "id"])
        assert next(table.rows(["id", "text"])) == (1, (0, "text 0"))


@pytest.mark.parametrize("content", [b"", b"text,label\n", b"PAR1" + b"x" * 40])
def test_file_that_is_not_parquet_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"in\.parquet: .*damaged"):
        batches(path)


def test_damaged_file_gives_rows_or_one_error(path):
    generator = random.Random(0)
    pq.write_table(TABLE, path)
    whole = path.read_bytes()
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(generator.randrange(1, 4)):
            content[generator.randrange(len(content))] = generator.randrange(256)
        path.write_bytes(content)
        with contextlib.suppress(DataError):
            values(path)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), "dictionary"])
def test_texts_of_any_type_are_read(path, kind):
    texts = pa.array(["é" * 100, None, "b"])
    pq.write_table(
        pa.table({"text": texts.dictionary_encode() if kind == "dictionary" else texts.cast(kind)}), path
    )
    assert values(path) == texts.to_pylist()


def test_text_that_is_not_utf_8_is_refused(path):
    pq.write_table(pa.table({"text": ["fine", "caf?"]}), path)
    path.write_bytes(path.read_bytes().replace(b"caf?", b"caf\xe9"))
    with pytest.raises(DataError, match=r"rows 1 to 2, .*'text': a text is not utf-8"):
        batches(path)
