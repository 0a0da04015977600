import json
import os
import sys
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.inbox import Incoming, Outbox, is_data, new_files, unread, unscored
from tests.flows.inbox.results import mark_scored

LONG = ["ä" * 120 + ending for ending in ("1.csv", "2.csv", "2.csv.gz")]
"""Names of the length that file systems allow, which differ only at their end."""


@pytest.fixture
def outbox(tmp_path) -> Outbox:
    (tmp_path / "in").mkdir()
    outbox = Outbox(tmp_path / "out", tmp_path / "scratch")
    outbox.prepare()
    return outbox


@pytest.fixture
def put(tmp_path):
    def put(name: str, text: str = "text\nhello\n", age: float = 60) -> Incoming:
        path = tmp_path / "in" / name
        path.write_text(text)
        os.utime(path, (time.time() - age,) * 2)
        return Incoming.find(path)

    return put


def names(tmp_path, outbox, settle_seconds: float = 10) -> list[str]:
    return [one.path.name for one in new_files(tmp_path / "in", outbox, settle_seconds)]


def test_new_files_are_sorted_by_age(tmp_path, outbox, put):
    put("b.csv", age=50)
    put("a.csv", age=40)
    put("c.jsonl.gz", age=90)
    assert names(tmp_path, outbox) == ["c.jsonl.gz", "b.csv", "a.csv"]


def test_name_is_one_line_without_what_a_terminal_obeys(outbox, put):
    """It stands in logs, and in the message of the commit that ``ingest`` makes."""
    incoming, other = put("a\nERROR\t\x1b[31m\u202e.csv"), put("a\nERROR\t\x1b[32m\u202e.csv")
    assert incoming.name == "a\\nERROR\\t\\x1b[31m\\u202e.csv"
    assert outbox.scored(incoming.stem, 1) != outbox.scored(other.stem, 1)
    outbox.refuse(incoming, "bad")
    assert [one.path for one in new_files(incoming.path.parent, outbox, 0)] == [other.path], (
        "it is known again by its record"
    )


def test_recently_changed_file_waits(tmp_path, outbox, put):
    put("a.csv", age=1)
    assert names(tmp_path, outbox) == []


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells")
def test_file_that_is_open_for_writing_waits(tmp_path, outbox, put):
    """Its writer pauses: it has not changed for a minute."""
    path = put("a.csv").path
    with path.open("a"):
        assert names(tmp_path, outbox) == []
        assert unscored(tmp_path / "in", outbox), "flow watch counts it"
    with path.open():
        assert names(tmp_path, outbox) == ["a.csv"], "a reader is no writer"


def test_scored_file_is_scored_again_only_after_a_change(tmp_path, outbox, put):
    mark_scored(outbox, put("a.csv"))
    assert names(tmp_path, outbox) == []
    put("a.csv", "text\nother\n", age=30)
    assert names(tmp_path, outbox) == ["a.csv"]
    mark_scored(outbox, Incoming.find(tmp_path / "in" / "a.csv"), number=3)
    assert names(tmp_path, outbox) == []


def test_results_of_a_name_are_numbered_and_no_file_takes_the_name_of_another(outbox, put):
    own = ["a.csv", "a.csv.2.csv", "a.csv.2.parquet", "a.2.csv", LONG[0]]
    expected = {}
    for name in own:
        incoming = put(name)
        for number in (10, 1, 2):
            mark_scored(outbox, incoming, number)
        expected[incoming.stem] = [1, 2, 10]
    (outbox.folder / ".a.csv.9.parquet.0000.partial").touch()
    (outbox.folder / "a.csv.error.json").touch()
    assert outbox.numbers() == expected
    assert len(list(outbox.folder.glob("[!.]*.parquet"))) == 3 * len(own)


def test_refused_file_is_tried_again_only_after_a_change(tmp_path, outbox, put):
    outbox.refuse(put("a.csv"), "a.csv has no column 'text'")
    assert names(tmp_path, outbox) == []
    assert (
        json.loads((outbox.folder / "a.csv.error.json").read_text())["error"] == "a.csv has no column 'text'"
    )
    put("a.csv", "text\ncorrected\n", age=30)
    assert names(tmp_path, outbox) == ["a.csv"]


def test_refused_file_is_tried_again_without_its_refusal(tmp_path, outbox, put):
    incoming = put("a.csv")
    outbox.refuse(incoming, "a.csv has no column 'text'")
    (outbox.folder / "a.csv.error.json").unlink()
    assert names(tmp_path, outbox) == ["a.csv"]


def test_file_of_the_future_is_watched_before_it_is_scored(tmp_path, outbox, put):
    put("future.csv", age=-3600)
    put("growing.csv", age=-3600)
    growing = threading.Timer(0.2, put, ["growing.csv", "text\nhello\nmore\n", -3600])
    growing.start()
    assert names(tmp_path, outbox, settle_seconds=0.5) == ["future.csv"]
    growing.join()
    started = time.monotonic()
    mark_scored(outbox, Incoming.find(tmp_path / "in" / "future.csv"))
    mark_scored(outbox, Incoming.find(tmp_path / "in" / "growing.csv"))
    assert names(tmp_path, outbox) == []
    assert time.monotonic() - started < 5, "a scored file is not waited for"


def test_longest_names_are_recorded_and_do_not_collide(tmp_path, outbox, put):
    files = [put(name) for name in LONG]
    mark_scored(outbox, files[0])
    outbox.refuse(files[1], "no column 'text'")
    assert names(tmp_path, outbox) == [LONG[2]]
    mark_scored(outbox, files[2])
    assert sorted(record.path for record in outbox.latest()) == [LONG[0], LONG[2]]


def test_name_that_is_not_utf8_is_recorded(tmp_path, outbox, put):
    incoming = put(os.fsdecode(b"caf\xe9.csv"))
    outbox.refuse(incoming, "no column 'text'")
    assert names(tmp_path, outbox) == []
    mark_scored(outbox, incoming)
    (record,) = outbox.latest()
    assert record.path == r"caf\xe9.csv"
    put(r"caf\xe9.csv")
    assert names(tmp_path, outbox) == [r"caf\xe9.csv"], "another file whose name looks the same"


def test_what_is_no_file_or_out_of_reach_is_not_scored(tmp_path, outbox):
    (tmp_path / "in" / "folder.csv").mkdir()
    (tmp_path / "in" / "gone.csv").symlink_to("nowhere.csv")
    (tmp_path / "in" / "itself.csv").symlink_to("itself.csv")
    os.mkfifo(tmp_path / "in" / "pipe.csv")
    (tmp_path / "secret.csv").write_text("text\npassword\n")
    (tmp_path / "in" / "secret.csv").symlink_to("../secret.csv")
    (tmp_path / "in" / "notes.xlsx").touch()
    (tmp_path / "in" / ".hidden.xlsx").touch()
    (tmp_path / "in" / "done").mkdir()
    assert names(tmp_path, outbox, settle_seconds=0) == []
    assert [*unread(tmp_path / "in", is_data).values()] == [
        "folder.csv is a folder, not a file",
        "gone.csv is a link, which is not followed",
        "itself.csv is a link, which is not followed",
        "notes.xlsx has an ending that is not read",
        "pipe.csv is a named pipe, not a file",
        "secret.csv is a link, which is not followed",
    ]


def test_file_that_a_link_replaced_for_a_moment_has_changed(tmp_path, outbox, put):
    """What was read meanwhile may have been any file that the worker can read."""
    found = put("a.csv")
    (tmp_path / "in" / "a.csv").rename(tmp_path / "in" / ".a.csv")
    (tmp_path / "in" / "a.csv").symlink_to("/etc/passwd")
    assert not found.unchanged
    (tmp_path / "in" / ".a.csv").rename(tmp_path / "in" / "a.csv")
    assert not found.unchanged
    assert Incoming.find(found.path).unchanged


def test_preparing_removes_what_a_killed_run_left(outbox):
    (outbox.scratch / "predictions.parquet").touch()
    (outbox.folder / "a.csv.parquet").touch()
    outbox.prepare()
    assert not list(outbox.scratch.iterdir())
    assert (outbox.folder / "a.csv.parquet").exists()


@pytest.mark.parametrize("name", [".a.csv", "_a.csv", "a.csv.partial", "a.csv.tmp", "a.txt", "README.md"])
def test_hidden_and_unsupported_files_are_not_data(name):
    assert not is_data(name)


@pytest.mark.parametrize("name", ["a.csv", "a.TSV", "a.jsonl.gz", "a.b.parquet"])
def test_supported_files_are_data(name):
    assert is_data(name)


def test_missing_inbox_is_empty(tmp_path, outbox):
    assert new_files(tmp_path / "nowhere", outbox, 0) == []


def test_outbox_file_of_another_program_has_no_record(tmp_path, outbox, put):
    put("a.csv")
    pq.write_table(pa.table({"x": [1]}), outbox.scored("a.csv"))
    assert names(tmp_path, outbox) == ["a.csv"]
    outbox.scored("a.csv").write_text("no Parquet")
    assert names(tmp_path, outbox) == ["a.csv"]
