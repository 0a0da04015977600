"""Patterns in the addresses of a storage, and folders in it that cannot be listed."""

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tuneline.readers.files import list_files
from tuneline.runtime.errors import DataError, UnreadableError


@pytest.fixture
def storage():
    """A storage with a file in each of some folders."""
    names = ("a.csv", "b.json", "2025-01/a.csv", "2026-01/a.csv", "2026-02/b.csv", "2026-02/old/a.csv")
    files = MemoryFileSystem()
    files.pipe({f"/listed/{name}": b"x" for name in names})
    yield files
    files.rm("/listed", recursive=True)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.csv", ["a.csv"]),
        ("*", ["a.csv", "b.json"]),
        ("2026-*/*.csv", ["2026-01/a.csv", "2026-02/b.csv"]),
        ("2026-*/a.csv", ["2026-01/a.csv"]),
        ("*/*/*", ["2026-02/old/a.csv"]),
        ("**/a.csv", ["2025-01/a.csv", "2026-01/a.csv", "2026-02/old/a.csv", "a.csv"]),
        ("2026-*/**", ["2026-01/a.csv", "2026-02/b.csv", "2026-02/old/a.csv"]),
    ],
)
def test_pattern_names_files(storage, pattern, names):
    assert [
        file.url.removeprefix("memory:///listed/") for file in list_files(f"memory://listed/{pattern}")
    ] == names


def test_pattern_without_a_file_is_refused(storage):
    with pytest.raises(DataError, match="has no files"):
        list_files("memory://listed/2027-*/*.csv")
    with pytest.raises(DataError, match="does not exist"):
        list_files("memory://listed/2027/*.csv")


def test_folder_that_cannot_be_listed_is_not_left_out(storage, monkeypatch):
    def ls(self, path, **options):
        if path.endswith("2026-02"):
            raise PermissionError("not yours")
        return listed(self, path, **options)

    listed = MemoryFileSystem.ls
    monkeypatch.setattr(MemoryFileSystem, "ls", ls)
    with pytest.raises(UnreadableError, match="not yours"):
        list_files("memory://listed/2026-*/*.csv")
    assert len(list_files("memory://listed/2025-*/*.csv")) == 1
