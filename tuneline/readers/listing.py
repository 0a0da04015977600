"""The files of a folder or of a pattern on a storage. The searches of fsspec leave out folders that they cannot list, without an error."""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from tuneline.errors import DataError
from tuneline.readers.urls import RemoteFile, file_system, reaching, shown, version_of


def list_files(url: str, depth: int = 1) -> list[RemoteFile]:
    """Return the files of a URL by name: of a folder, those in it; of a pattern with ``*``, those that match; else the one file.

    Args:
        url: The URL.
        depth: 2 to list the files of the folders in a folder, too.

    Raises:
        DataError: There is none, or the URL contains a password.
        StageError: The storage cannot be reached, or its package is not installed.
    """
    with reaching(shown(url)):
        files, path = file_system(url)
        files.invalidate_cache()
        if "*" in path:
            root = path.partition("*")[0].rpartition("/")[0]
            found = dict(_matching(files, root, path.removeprefix(f"{root}/").split("/")))
        elif url.endswith("/") or (not url.startswith("http") and files.isdir(path)):  # of HTTP, that would read the file
            found = dict(_below(files, path, depth))
        else:
            return [_found(files, path, files.info(path), url)]
        listed = [_found(files, name, info) for name, info in sorted(found.items()) if not name.endswith("/")]
    if not listed:
        raise DataError(f"{shown(url)} has no files.", "Check the address; a folder ends in /, and * stands for any part of a name.")
    return listed


def _below(files: Any, path: str, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the files of a folder, and of the folders in it."""
    for info in files.ls(path, detail=True):
        if info["type"] == "file":
            yield info["name"], info
        elif depth > 1:
            yield from _below(files, info["name"], depth - 1)


def _matching(files: Any, path: str, pattern: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the files in a folder whose paths match a pattern, given as the names in it; ``**`` stands for any number of folders."""
    first, *rest = pattern if pattern != ["**"] else ["**", "*"]
    if first == "**" and rest:
        yield from _matching(files, path, rest)
    for info in files.ls(path, detail=True):
        fits = fnmatchcase(info["name"].rstrip("/").rpartition("/")[2], first)
        if info["type"] == "file" and fits and not rest:
            yield info["name"], info
        elif info["type"] == "directory" and fits and rest:
            yield from _matching(files, info["name"], pattern if first == "**" else rest)


def _found(files: Any, path: str, info: Mapping[str, Any], url: str | None = None) -> RemoteFile:
    if info["type"] != "file":
        raise DataError(f"{shown(url or path)} is a folder, not a file.", "Name a file in it.")
    return RemoteFile(url or files.unstrip_protocol(path), int(info.get("size") or 0), version_of(info))
