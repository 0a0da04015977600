"""What a killed process has written whole is there for the next one with the same key, and for no reader
before it is complete."""

import shutil
from pathlib import Path

import pytest

from tests.faults.kills import kills
from tuneline.core.hashes import content_key
from tuneline.runtime.atomic_files import replace_file
from tuneline.runtime.errors import StageError
from tuneline.runtime.resumable import resumable_directory

NAMES = ["first", "second", "third"]


def write(target: Path, key: str = "a", stop: type[BaseException] | None = None) -> list[str]:
    """Writes three files, and gives back the names of those that were there already."""
    with resumable_directory(target, key) as folder:
        found = [path.name for path in folder.iterdir()]
        for name in NAMES:
            if name not in found:
                with replace_file(folder / name) as partial:
                    partial.write_text(f"{name} {key}")
            if name == "second" and stop is not None:
                raise stop
    return sorted(found)


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_next_process_finds_the_whole_files_wherever_the_one_before_was_killed(tmp_path):
    target, whole, found = tmp_path / "raw", {name: f"{name} a" for name in NAMES}, []
    for _ in kills(lambda: write(target)):
        assert not target.exists() or texts(target) == whole
        found.append(write(target))
        assert texts(target) == whole
        assert list(tmp_path.iterdir()) == [target]
        shutil.rmtree(target)
    assert {len(names) for names in found} == {0, 1, 2, 3}
    assert all(names == NAMES[: len(names)] for names in found)


@pytest.mark.parametrize("stop", [KeyboardInterrupt])
def test_stopped_writer_leaves_whole_files_for_its_key_and_the_target_as_it_was(tmp_path, stop):
    target = tmp_path / "raw"
    write(target, "old")
    error = StageError("x") if stop is StageError else stop
    with pytest.raises(stop):
        write(target, "a", error)
    assert texts(target) == {name: f"{name} old" for name in NAMES}
    with pytest.raises(stop):
        write(target, "b", error)
    assert [path.name for path in (tmp_path / ".raw.resumable").iterdir()] == ["b"], (
        "another key removes what is of no use"
    )
    assert write(target, "b") == NAMES[:2]
    assert texts(target) == {name: f"{name} b" for name in NAMES}
    assert list(tmp_path.iterdir()) == [target]
    assert target.stat().st_mode & 0o666 == (target / "first").stat().st_mode & 0o777, (
        "as replace_directory applies the umask"
    )


def test_second_writer_is_told_of_the_first_and_takes_nothing_from_it(tmp_path):
    target = tmp_path / "raw"
    with resumable_directory(target, "a") as folder:
        (folder / "first").write_text("first")
        for key in ("a", "b"):
            with pytest.raises(StageError, match="another process"):
                write(target, key)
    assert texts(target) == {"first": "first"}
    assert write(target) == []


def test_key_follows_values_and_files_and_nothing_else(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("one")
    key = content_key({"a": 1, "b": [2]}, files=[path])
    assert content_key({"b": [2], "a": 1}, files=[path]) == key
    path.touch()
    assert content_key({"a": 1, "b": [2]}, files=[path]) == key
    path.write_text("two")
    others = {
        content_key({"a": 1, "b": [2]}, files=[path]),
        content_key({"a": 1, "b": [3]}, files=[path]),
        content_key({"a": 1, "b": [2]}),
    }
    assert len(others - {key}) == 3
