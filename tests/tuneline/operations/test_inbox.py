"""Which files are read, which names results have, and that links are not followed."""

import os
import time

import pytest

from tuneline.operations.inbox import complete_files, unread


@pytest.fixture
def inbox(tmp_path):
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


def test_complete_data_files_are_listed_the_oldest_first_and_others_named(inbox):
    for number, name in enumerate(("b.csv", "a.jsonl.gz", ".hidden.csv", "_started.csv", "notes.txt")):
        (inbox / name).write_text("text\n")
        os.utime(inbox / name, (number, number))
    (inbox / "folder.csv").mkdir()
    (inbox / "link.csv").symlink_to(inbox / "b.csv")
    os.mkfifo(inbox / "pipe.csv")
    os.utime(inbox / "b.csv", (time.time() + 3600,) * 2)  # another machine's clock
    assert [file.name for file in complete_files(inbox, 0)] == ["a.jsonl.gz", "b.csv"]
    assert complete_files(inbox, 60) == [], "they came a moment ago, whatever time their copies kept"
    assert complete_files(inbox / "missing", 0) == []
    problems = unread(inbox)
    assert [problem.split()[0] for problem in problems] == ["folder.csv", "link.csv", "notes.txt", "pipe.csv"]
    assert problems[1].endswith("is no file (links are not followed)")
