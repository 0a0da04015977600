import pytest

from tests.shards import into_shards
from tests.stages.tokenize.raw_splits import write_raw
from tuneline.core.stage import texts
from tuneline.core.stage.tables import SplitReader
from tuneline.core.stage.texts import read_sample


@pytest.fixture
def split(tmp_path):
    """A raw split of 50 rows, in three shards."""
    path = tmp_path / "train.parquet"
    write_raw(
        path, [[f"subject {row}" for row in range(50)], [f"body {row} " + "x" * row for row in range(50)]]
    )
    into_shards(tmp_path, rows=20)
    return SplitReader.open(tmp_path, "train", "download")


@pytest.mark.parametrize(
    ("limit", "value", "expected"),
    [("MAX_ROWS", 20, 20), ("MAX_CHARACTERS", 500, None)],
)
def test_sample_of_a_large_split_is_drawn_with_the_seed_within_the_limits(
    split, monkeypatch, limit, value, expected
):
    monkeypatch.setattr(texts, limit, value)
    rows, again, other = (read_sample(split, ["subject", "body"], 5, seed) for seed in (1, 1, 2))
    assert rows.equals(again)
    assert not rows.equals(other)
    if expected is None:
        expected = len(rows)
        assert 300 < sum(len(text) for name in ("subject", "body") for text in rows[name].to_pylist()) <= 500
    positions = [int(text.split()[1]) for text in rows["subject"].to_pylist()]
    assert len(positions) == len(set(positions)) == expected
    assert positions == sorted(positions)
    assert [int(text.split()[1]) for text in rows["body"].to_pylist()] == positions
    assert rows["labels"].to_pylist() == [position % 2 for position in positions]
