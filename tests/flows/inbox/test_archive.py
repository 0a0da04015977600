"""The archive: what a kill leaves is completed, nothing is overwritten, and what is scored again is selected
by its last result."""

import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from flows.inbox import Archive, ChangedError, Incoming, Outbox, archived_files, new_files
from tests.faults.kills import kills
from tests.flows.inbox.results import NEW, OLD, mark_scored

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - another file system, not a temporary folder


@pytest.fixture
def outbox(tmp_path) -> Outbox:
    outbox = Outbox(tmp_path / "out", tmp_path / "scratch")
    outbox.prepare()
    return outbox


@pytest.fixture
def put(tmp_path):
    def put(name: str, text: str = "text\nhello\n") -> Incoming:
        path = tmp_path / "in" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return Incoming.find(path)

    return put


@pytest.fixture(params=["same", "other"])
def archive(request, tmp_path):
    """An archive on the file system of the inbox, and on another one."""
    if request.param == "same":
        yield Archive(tmp_path, Path("archive"))
        return
    if not SHARED_MEMORY.is_dir() or SHARED_MEMORY.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs /dev/shm, on a file system of its own")
    folder = Path(tempfile.mkdtemp(dir=SHARED_MEMORY))
    yield Archive(tmp_path, folder)
    shutil.rmtree(folder)


def archived(archive: Archive) -> dict[str, str]:
    return {path.name: path.read_text() for path in (archive.root / archive.folder).iterdir()}


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("a.csv", "a.csv", "a.csv.2.csv"),
        ("a.JSONL.gz", "a.JSONL.gz", "a.JSONL.gz.2.JSONL.gz"),
        ("x" * 240 + ".csv", "x" * 183 + "~{}.csv", "x" * 183 + "~{}.2.csv"),
        (os.fsdecode(b"caf\xe9.csv"), r"caf\xe9.csv~{}.csv", r"caf\xe9.csv~{}.2.csv"),
    ],
)
def test_archived_file_has_the_stem_of_its_result_and_the_suffix_of_its_format(name, first, second):
    incoming, archive = Incoming(Path(name), 0, 0, 0), Archive(Path("root"), Path("data/archive"))
    digest = incoming.stem.rpartition("~")[2]
    assert [archive.place(incoming, number) for number in (1, 2)] == [
        f"data/archive/{name.format(digest)}" for name in (first, second)
    ]


@pytest.mark.promise("killed-scoring")
def test_kill_at_any_instant_of_the_move_is_completed_by_the_next_run(tmp_path, outbox, archive, put):
    incoming = put("a.csv")
    place = archive.place(incoming, 1)
    mark_scored(outbox, incoming, archived=place)
    steps = 0
    for steps in kills(lambda: archive.move(Incoming.find(incoming.path), place)):
        assert incoming.path.exists() or archive.has(place)
        assert archive.complete(tmp_path / "in", outbox) == []
        assert (archived(archive), list((tmp_path / "in").iterdir())) == (
            {"a.csv": "text\nhello\n"},
            [],
        ), steps
        shutil.rmtree(archive.root / archive.folder)
        os.utime(put("a.csv").path, ns=(incoming.mtime_ns,) * 2)
    assert steps
    assert archived(archive) == {"a.csv": "text\nhello\n"}, "what was not killed"
    assert Incoming.find(archive.root / place).mtime_ns == incoming.mtime_ns


def test_file_that_changed_after_it_was_scored_stays_in_the_inbox(archive, put):
    scored = put("a.csv")
    newer = put("a.csv", "text\nsomething else\n")
    with pytest.raises(ChangedError):
        archive.move(scored, archive.place(scored, 1))
    assert newer.unchanged
    assert not archive.has(archive.place(scored, 1))


@pytest.mark.promise("changing-file")
def test_archived_file_that_its_writer_writes_on_is_scored_again(tmp_path, outbox, archive, put):
    """The writer had paused for longer than ``settle_seconds``; it has the file open, wherever that is
    moved."""
    scored = put("a.csv")
    mark_scored(outbox, scored, archived=archive.place(scored, 1))
    with scored.path.open("a"), pytest.raises(ChangedError, match="is being written"):
        archive.move(scored, archive.place(scored, 1))
    archive.move(scored, archive.place(scored, 1))
    assert archive.take_back(tmp_path / "in", outbox) == []
    moved = archive.root / archive.place(scored, 1)
    os.utime(moved)
    assert archive.take_back(tmp_path / "in", outbox) == [], "its content is what was scored"

    with moved.open("a") as file:
        file.write("of a slow writer\n")
    (message,) = archive.take_back(tmp_path / "in", outbox)
    if moved.exists():
        assert "cannot be scored again: " in message, (
            "no rename from one file system to another: it is said in every run"
        )
        return
    assert message == "a.csv was written on after it was scored: it is scored again."
    assert [one.path.read_text() for one in new_files(tmp_path / "in", outbox, 0)] == [
        "text\nhello\nof a slow writer\n"
    ]

    later = Incoming.find(tmp_path / "in" / "a.csv")
    mark_scored(outbox, later, 2, archived=archive.place(later, 2))
    archive.move(later, archive.place(later, 2))
    put("a.csv")
    with (archive.root / archive.place(later, 2)).open("a") as file:
        file.write("again\n")
    archive.take_back(tmp_path / "in", outbox)
    assert sorted(path.read_text() for path in (tmp_path / "in").iterdir())[1].endswith("again\n"), (
        "another file has its name meanwhile"
    )


def test_file_that_comes_once_more_is_removed_only_if_the_archive_has_it(tmp_path, outbox, archive, put):
    incoming = put("a.csv")
    mark_scored(outbox, incoming, archived=archive.place(incoming, 1))
    archive.move(incoming, archive.place(incoming, 1))

    os.utime(put("a.csv").path, ns=(incoming.mtime_ns,) * 2)
    assert archive.complete(tmp_path / "in", outbox) == []
    assert not incoming.path.exists()

    os.utime(put("a.csv", "text\nHELLO\n").path, ns=(incoming.mtime_ns,) * 2)
    (problem,) = archive.complete(tmp_path / "in", outbox)
    assert "another content" in problem

    os.utime(put("a.csv").path, ns=(incoming.mtime_ns,) * 2)
    (archive.root / archive.place(incoming, 1)).write_text("of the user")
    (problem,) = archive.complete(tmp_path / "in", outbox)
    assert problem.startswith("not archived a.csv, the next run tries again: ")
    assert "is another file" in problem
    assert archived(archive) == {"a.csv": "of the user"}
    assert incoming.path.exists()


def test_files_whose_last_result_is_by_another_model_are_scored_again(tmp_path, outbox, put):
    archive = Archive(tmp_path, Path("archive"))

    def scored(name: str, number: int, commit: str, place_of: int | None = None, days: float = 0) -> None:
        incoming = put(name)
        place = archive.place(incoming, place_of or number)
        mark_scored(outbox, incoming, number, commit, archived=place)
        os.utime(outbox.scored(incoming.stem, number), (time.time() - days * 86400,) * 2)
        archive.move(incoming, place)

    def again(commit: str, names: tuple[str, ...] = ("*",), days: float | None = None) -> list[str]:
        found = archived_files(tmp_path, outbox, commit, names, days)
        assert all(one.name.endswith(".csv") and one.unchanged for one in found)
        return [one.path.name for one in found]

    scored("old.csv", 1, OLD, days=9)
    scored("old.csv", 2, OLD, days=5)  # another file of that name
    scored("new.csv", 1, NEW, days=1)
    scored("kept.csv", 1, OLD)
    mark_scored(outbox, put("inbox.csv"), commit=OLD)
    assert again(NEW) == ["old.csv", "old.csv.2.csv", "kept.csv"]
    assert again(OLD) == ["new.csv"]
    assert again(NEW, ("k*", "none")) == ["kept.csv"]
    assert again(NEW, days=6) == ["old.csv.2.csv", "kept.csv"]

    scored("old.csv", 3, NEW, place_of=1)  # the first one, scored again today
    assert again(NEW) == ["old.csv.2.csv", "kept.csv"]
    scored("old.csv", 4, OLD, place_of=1)  # and once more, after a rollback
    assert again(NEW) == ["old.csv", "old.csv.2.csv", "kept.csv"]
    assert again(NEW, days=6) == ["old.csv.2.csv", "kept.csv"], "scored first nine days ago"
    (tmp_path / "archive" / "kept.csv").unlink()
    assert again(NEW) == ["old.csv", "old.csv.2.csv"], "what is no longer archived"
