import itertools

import pytest

from tests.stages.tokenize.raw_splits import write_raw
from tuneline.core.runtime.errors import DataError
from tuneline.core.stage.tables import SplitReader, shard_file
from tuneline.model.tokens.wordpiece import training_texts


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
    assert "".join(itertools.chain.from_iterable(training_texts(train, ["subject"], at_most))) == rows


def test_damage_that_is_detected_while_reading_names_the_file(train):
    path = train.paths[1]
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(content)
    with pytest.raises(DataError, match="train-00001-of-00003"):
        list(training_texts(train, ["subject"], at_most=5))
