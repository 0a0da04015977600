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


def test_nothing_is_said_where_all_rows_are_read_to_their_end(predict, tmp_path):
    (tmp_path / "short.jsonl").write_text('{"subject": "the parcel", "body": "is missing"}\n')
    assert "longer than" not in predict(tmp_path / "short.jsonl").stderr
