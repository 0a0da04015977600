"""Rows that are longer than the model reads are counted, and said."""

import json

import pytest

LONG = " ".join(["parcel"] * 600)


@pytest.fixture
def rows(tmp_path):
    """Three rows, of which two have more tokens than the model reads."""
    path = tmp_path / "rows.jsonl"
    texts = [LONG, "is missing", LONG]
    path.write_text("".join(json.dumps({"subject": "the parcel", "body": text}) + "\n" for text in texts))
    return path


def test_truncated_rows_are_counted_in_the_summary(predict, rows):
    done = predict(rows)
    assert done.exit_code == 0, done.output
    assert "2 of 3 rows (66.7%) are longer than " in done.stderr
    assert " tokens: the model did not read the rest" in done.stderr
