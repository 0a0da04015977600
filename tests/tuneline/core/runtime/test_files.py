import os
from pathlib import Path

import pytest

from tests.faults.kills import killed, kills
from tuneline.core.runtime.files import replace_directory, replace_file


class Broken(Exception):
    """Stands for any error that ends a block."""


def test_replace_file_creates_the_file_only_when_the_block_ends(tmp_path):
    target = tmp_path / "made" / "model.bin"
    with replace_file(target) as partial:
        partial.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


def test_replace_file_keeps_the_previous_file_after_an_error(tmp_path):
    target = tmp_path / "model.bin"
    target.write_text("old")
    with pytest.raises(Broken), replace_file(target) as partial:
        partial.write_text("half")
        raise Broken
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_replace_directory_replaces_the_previous_folder(tmp_path):
    target = tmp_path / "raw"
    target.mkdir()
    (target / "stale").touch()
    with replace_directory(target) as partial:
        (partial / "fresh").touch()
        assert (target / "stale").exists()
    assert [path.name for path in target.iterdir()] == ["fresh"]
    assert list(tmp_path.iterdir()) == [target]


def test_replace_directory_keeps_the_previous_folder_after_an_error(tmp_path):
    target = tmp_path / "raw"
    target.mkdir()
    (target / "old").touch()
    with pytest.raises(Broken), replace_directory(target) as partial:
        (partial / "half").touch()
        raise Broken
    assert [path.name for path in target.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [target]


def is_rename(event, _arguments) -> bool:
    return event == "os.rename"


def write_file(target: Path, text: str) -> None:
    with replace_file(target) as partial:
        partial.write_text(text)


def write_directory(target: Path, text: str) -> None:
    with replace_directory(target) as partial:
        (partial / "inner").mkdir()
        (partial / "inner" / "text").write_text(text)


@pytest.mark.parametrize("write", [write_file, write_directory])
def test_leftover_of_a_killed_process_is_removed_by_the_next_writer(tmp_path, write):
    target = tmp_path / "out"
    assert killed(lambda: write(target, "half"), 1, is_rename)
    assert [path.suffix for path in tmp_path.iterdir()] == [".partial"]
    write(target, "whole")
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.promise("killed-writer")
def test_two_writers_of_one_file_do_not_mix(tmp_path):
    target = tmp_path / "out"
    with replace_file(target) as first:
        first.write_text("first")
        write_file(target, "second")
        assert target.read_text() == "second"
        assert first.read_text() == "first"
    assert target.read_text() == "first"
    assert list(tmp_path.iterdir()) == [target]


def test_writer_in_another_process_is_not_taken_for_a_leftover(tmp_path):
    target = tmp_path / "out"
    with replace_file(target) as partial:
        child = os.fork()
        if not child:
            write_file(target, "other")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert partial.exists()


@pytest.mark.promise("killed-writer")
def test_file_is_the_old_or_the_new_one_wherever_the_writer_is_killed(tmp_path):
    target = tmp_path / "out"
    write_file(target, "old")
    seen = [target.read_text() for _ in kills(lambda: write_file(target, "new"))]
    assert seen[0] == "old"
    assert set(seen) <= {"old", "new"}
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.promise("killed-writer")
def test_former_folder_is_put_back_wherever_the_writer_is_killed(tmp_path):
    target = tmp_path / "out"
    (tmp_path / ".out.other.0123abcd.former").mkdir()  # of another folder, out.other
    write_directory(target, "old")
    seen = []
    for _ in kills(lambda: write_directory(target, "new"), is_rename):
        with pytest.raises(Broken), replace_directory(target):
            raise Broken
        seen.append((target / "inner/text").read_text())
    assert seen == ["old", "old"]
    assert (target / "inner/text").read_text() == "new"
    assert {path.name for path in tmp_path.iterdir()} == {"out", ".out.other.0123abcd.former"}


@pytest.mark.parametrize("write", [write_file, write_directory])
@pytest.mark.promise("killed-writer")
def test_everything_has_reached_the_disk_before_the_rename_and_the_rename_afterwards(
    tmp_path, write, monkeypatch
):
    target, synced = tmp_path / "out", []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        fsync(descriptor)
        synced.append((os.fstat(descriptor).st_ino, target.exists()))

    monkeypatch.setattr(os, "fsync", record)
    write(target, "new")
    written = [path.stat().st_ino for path in (target, *target.rglob("*"))]
    assert {inode for inode, renamed in synced if not renamed} == set(written)
    assert synced[-1] == (tmp_path.stat().st_ino, True)


@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600)])
def test_replace_directory_applies_the_umask(tmp_path, mask, mode):
    """Some libraries write through temporary files that only their owner can read, so a server of another
    user could not read the model."""
    former = os.umask(mask)
    try:
        with replace_directory(tmp_path / "classifier") as partial:
            (partial / "inner").mkdir()
            for path in (partial / "model.safetensors", partial / "inner" / "tokenizer.json"):
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    finally:
        os.umask(former)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()} == {
        "model.safetensors": mode,
        "tokenizer.json": mode,
    }
