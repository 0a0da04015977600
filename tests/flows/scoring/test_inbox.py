import json
import os
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.scoring.inbox import METADATA, Incoming, Outbox, is_data, new_files


@pytest.fixture
def outbox(tmp_path) -> Outbox:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    return Outbox(tmp_path / "out")


@pytest.fixture
def put(tmp_path):
    def put(name: str, text: str = "text\nhello\n", age: float = 60) -> Incoming:
        path = tmp_path / "in" / name
        path.write_text(text)
        os.utime(path, (time.time() - age,) * 2)
        return Incoming.of(path)

    return put


def names(tmp_path, outbox) -> list[str]:
    return [one.path.name for one in new_files(tmp_path / "in", outbox, settle_seconds=10)]


def mark_scored(outbox: Outbox, incoming: Incoming) -> None:
    schema = pa.schema([("row", pa.int64())], metadata={METADATA: json.dumps(incoming.as_record())})
    pq.write_table(pa.table({"row": [1]}).cast(schema), outbox.scored(incoming))


def test_new_files_are_sorted_by_age(tmp_path, outbox, put):
    put("b.csv", age=50)
    put("a.csv", age=40)
    put("c.jsonl.gz", age=90)
    assert names(tmp_path, outbox) == ["c.jsonl.gz", "b.csv", "a.csv"]


def test_recently_changed_file_waits(tmp_path, outbox, put):
    put("a.csv", age=1)
    assert names(tmp_path, outbox) == []


def test_scored_file_is_scored_again_only_after_a_change(tmp_path, outbox, put):
    mark_scored(outbox, put("a.csv"))
    assert names(tmp_path, outbox) == []
    put("a.csv", "text\nother\n", age=30)
    assert names(tmp_path, outbox) == ["a.csv"]


def test_refused_file_is_tried_again_only_after_a_change(tmp_path, outbox, put):
    outbox.refuse(put("a.csv"), "a.csv has no column 'text'")
    assert names(tmp_path, outbox) == []
    assert json.loads((outbox.folder / "a.csv.error.json").read_text())["error"] == "a.csv has no column 'text'"
    put("a.csv", "text\nmended\n", age=30)
    assert names(tmp_path, outbox) == ["a.csv"]


@pytest.mark.parametrize("name", [".a.csv", "_a.csv", "a.csv.partial", "a.csv.tmp", "a.txt", "README.md"])
def test_hidden_and_unsupported_files_are_not_data(name):
    assert not is_data(name)


@pytest.mark.parametrize("name", ["a.csv", "a.TSV", "a.jsonl.gz", "a.b.parquet"])
def test_supported_files_are_data(name):
    assert is_data(name)


def test_missing_inbox_is_empty(tmp_path, outbox):
    assert new_files(tmp_path / "nowhere", outbox, 0) == []


def test_outbox_file_of_another_program_has_no_record(tmp_path, outbox, put):
    incoming = put("a.csv")
    pq.write_table(pa.table({"x": [1]}), outbox.scored(incoming))
    assert names(tmp_path, outbox) == ["a.csv"]
    outbox.scored(incoming).write_text("no Parquet")
    assert names(tmp_path, outbox) == ["a.csv"]
