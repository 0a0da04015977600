import numpy as np
import pytest

from stages.evaluate.behaviour import LabelledTexts
from tests.stages.tokenize.raw_splits import NO_YES, write_raw
from tuneline.core.tables import SplitReader, shard_file


@pytest.fixture
def raw(tmp_path):
    """Rows ``a b``, ``c d`` and ``e f`` in two shards."""
    for number, rows in enumerate([[["a", "b"], ["c", "d"]], [["e", "f"]]]):
        write_raw(
            shard_file(tmp_path, "test", number, 2), [list(column) for column in zip(*rows, strict=True)]
        )
    return SplitReader.open(tmp_path, "test", "download")


def test_texts_are_read_in_batches_and_by_row_over_all_shards(raw):
    texts = LabelledTexts.of(raw, ["body", "subject"], np.zeros(3, np.int64), NO_YES)
    assert list(texts.batches()) == [[["b", "d"], ["a", "c"]], [["f"], ["e"]]]
    assert texts.take(np.array([0, 2])) == [("b", "a"), ("f", "e")]
