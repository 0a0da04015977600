import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.tokenize.tokenizer import RawTexts
from tests.stages.tokenize.raw_splits import write_raw
from tuneline.core.tables import SplitReader, shard_file
from tuneline.runtime.errors import DataError


@pytest.fixture
def train(tmp_path):
    """A raw split of five rows with two text columns, in three files."""
    for number, rows in enumerate((slice(0, 2), slice(2, 4), slice(4, 5))):
        write_raw(
            shard_file(tmp_path, "train", number, 3),
            ["abcde"[rows], "vwxyz"[rows]],
            labels=[0, 1][: len("abcde"[rows])],
        )
    return SplitReader.open(tmp_path, "train", "download")


@pytest.mark.parametrize(
    ("at_most", "rows"),
    [
        (3, "ace"),
        (2, "ad"),
    ],
)
def test_texts_of_some_rows_are_spread_evenly_over_the_files(train, at_most, rows):
    assert "".join(itertools.chain.from_iterable(RawTexts(train, ["subject"]).texts(at_most))) == rows


def test_null_is_refused_with_its_row_in_the_file(train):
    table = pq.read_table(train.paths[1])
    pq.write_table(table.set_column(1, table.field(1), pa.array(["x", None])), train.paths[1])
    with pytest.raises(DataError, match="row 1: column 'body'"):
        list(RawTexts(train, ["subject", "body"]).texts(at_most=5))


def test_damage_that_is_detected_while_reading_names_the_file(train):
    path = train.paths[1]
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(content)
    with pytest.raises(DataError, match="train-00001-of-00003"):
        list(RawTexts(train, ["subject"]).texts(at_most=5))
