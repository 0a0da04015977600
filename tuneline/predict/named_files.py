"""The files that the arguments of ``predict`` name: paths, folders, patterns, URLs and streams."""

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tuneline.predict.writing import descriptor
from tuneline.readers.files import DataFile, RemoteFile, file_system, is_url, list_files, not_a_file, shown
from tuneline.readers.formats import ENDINGS
from tuneline.runtime.errors import DataError, StageError

SCHEME_OF_PATHS = "file://"


def named_target(output: str) -> DataFile | None:
    """Return the file that ``--output`` names; ``None`` for standard output."""
    if is_remote(output):
        file_system(output)
        return RemoteFile(output)
    path = as_path(output)
    return None if output == "-" or descriptor(path) == 1 else path


def named_sources(
    files: Sequence[str], target: DataFile | None, *, any_ending: bool
) -> list[DataFile | None]:
    """Return the inputs, checked before they are opened.

    Args:
        files: Paths, patterns and URLs; ``-`` is standard input.
        target: Output, which must be no input; ``None`` for standard output.
        any_ending: Take files of a folder or pattern whatever their ending.

    Returns:
        The files; ``None`` for standard input.
    """
    # a stream, which must be the only input
    if files == ["-"]:
        return [None]
    if len(files) == 1:
        path = as_path(files[0])
        if is_stream(path):
            return [path]
    streams = [name for name in files if name == "-" or is_stream(as_path(name))]
    if streams:
        raise StageError(
            f"{streams[0]} cannot be read together with other files.", "Name files only, or pipe all rows in."
        )

    # files
    sources: list[DataFile | None] = []
    for name in files:
        sources += _named_files(name, any_ending)
    for source in sources:
        if _is_same_file(source, target):
            raise StageError(
                f"--output: {target} is also the input, which would be overwritten.", "Name another file."
            )
    return sources


def _is_same_file(source: DataFile | None, target: DataFile | None) -> bool:
    if source == target:
        return True
    if not isinstance(source, Path) or not isinstance(target, Path):
        return False
    return target.exists() and target.samefile(source)


def is_stream(path: DataFile | None) -> bool:
    """Return True for standard input, a named pipe or an open file such as ``/dev/fd/3``."""
    return path is None or (isinstance(path, Path) and (path.is_fifo() or descriptor(path) is not None))


def as_path(word: str) -> Path:
    """Return the path that a word names, which may be a URL ``file://``."""
    return Path(unquote(urlsplit(word).path) if word.startswith(SCHEME_OF_PATHS) else word)


def is_remote(word: str) -> bool:
    """Return True for the URL of a storage, such as ``s3://bucket/folder``."""
    return is_url(word) and not word.startswith(SCHEME_OF_PATHS)


def _named_files(word: str, any_ending: bool) -> Sequence[DataFile]:
    """Return the files that a word names: a file, a folder, a pattern with ``*``, or a URL of one of them.

    A single file is returned whatever its ending; of a folder or pattern, only data is.
    """
    files = list_files(word) if is_remote(word) else _local_files(as_path(word))
    if len(files) == 1:
        (file,) = files
        is_named = str(file) == str(as_path(word))
        if is_named or (isinstance(file, RemoteFile) and file.url == word):
            return files

    data = [file for file in files if _is_data(file, any_ending)]
    for file in data:
        if isinstance(file, Path) and (problem := not_a_file(file)):
            raise StageError(f"{file} {problem}.", "Move it away, or put a dot in front of its name.")
    if not data:
        raise DataError(
            f"{shown(word)} has no file that ends in {', '.join(ENDINGS)}.",
            "Check the path; --input-format reads all files.",
        )
    return data


def _local_files(path: Path) -> Sequence[DataFile]:
    if path.is_dir():
        return sorted(path.iterdir())
    if "*" in path.name and not os.path.lexists(path):
        matches = sorted(path.parent.glob(path.name))
        if matches:
            return matches
    if problem := not_a_file(path):
        raise StageError(f"{path} {problem}.", "Check the path; - is standard input.")
    return [path]


def _is_data(file: DataFile, any_ending: bool) -> bool:
    """Return True for a file whose name ends as data does, or for any file, and is not hidden."""
    if file.name.startswith((".", "_")):
        return False
    if file.name.lower().endswith(ENDINGS):
        return True
    is_folder = isinstance(file, Path) and file.is_dir()
    return any_ending and not is_folder
