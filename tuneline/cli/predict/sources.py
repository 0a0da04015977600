"""What the arguments of the command name: the files to predict, with the tasks that they are divided into, and the output."""

import dataclasses
import os
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tuneline.cli.predict.writing import check_target, descriptor
from tuneline.core.errors import DataError, StageError
from tuneline.core.terminal import say
from tuneline.readers.files import DataFile, RemoteFile, file_system, is_url, list_files, not_a_file, shown
from tuneline.readers.inputs import KINDS, OPTIONS, Input
from tuneline.readers.parquet import open_parquet
from tuneline.readers.rows import Kind
from tuneline.readers.text import is_gzip

TASK_ROWS = 50_000
"""Rows of a Parquet file that are one task. The number is fixed so that the same rows always give the same bytes: a batch does not reach
from one task into the next."""
SCHEME_OF_PATHS = "file://"
_SHARD = re.compile(r"(?P<name>.*)-(?P<number>\d{5,})-of-(?P<count>\d{5,})\..*")


def named_target(output: str) -> DataFile | None:
    """Return the file that ``--output`` names; ``None`` for standard output."""
    if is_remote(output):
        file_system(output)
        return RemoteFile(output)
    path = as_path(output)
    check_target(path)
    return None if output == "-" or descriptor(path) == 1 else path


def named_sources(files: Sequence[str], target: DataFile | None, *, any_ending: bool) -> list[DataFile | None]:
    """Return the inputs (paths, patterns, URLs), checked before they are opened; ``None`` for standard input (``-``).

    Raises:
        StageError: One is missing, is no file, or is also the output; or standard input is one of several.
    """
    if files == ["-"]:
        return [None]
    if len(files) == 1 and is_stream(path := as_path(files[0])):
        if descriptor(path) is None:  # it is waited for until a program writes to it
            say(f"{path} is a named pipe: reading what another program writes to it.", error=True)
        return [path]
    if streams := [name for name in files if name == "-" or is_stream(as_path(name))]:
        raise StageError(f"{streams[0]} cannot be read together with other files.", "Name files only, or pipe all rows in.")
    found = [file for name in files for file in _named(name, any_ending)]
    for source in found:
        same = isinstance(source, Path) and isinstance(target, Path) and target.exists() and target.samefile(source)
        if same or source == target:
            raise StageError(f"--output: {target} is also the input, which would be overwritten.", "Name another file.")
    return [*found]


def is_stream(path: DataFile | None) -> bool:
    """Return True for standard input, a named pipe or an open file such as ``/dev/fd/3``."""
    return path is None or (isinstance(path, Path) and (path.is_fifo() or descriptor(path) is not None))


def as_path(word: str) -> Path:
    """Return the path that a word names, which may be a URL ``file://``."""
    return Path(unquote(urlsplit(word).path) if word.startswith(SCHEME_OF_PATHS) else word)


def is_remote(word: str) -> bool:
    """Return True for the URL of a storage, such as ``s3://bucket/folder``."""
    return is_url(word) and not word.startswith(SCHEME_OF_PATHS)


def _named(word: str, any_ending: bool) -> Sequence[DataFile]:
    """Return the files that a word names: a file, a folder, a pattern with ``*``, or a URL of each; of folders and patterns, the data."""
    files = list_files(word) if is_remote(word) else _local(as_path(word))
    if len(files) == 1 and (str(files[0]) == str(as_path(word)) or (isinstance(files[0], RemoteFile) and files[0].url == word)):
        return files
    data = [file for file in files if _is_data(file, any_ending)]
    for file in data:
        if isinstance(file, Path) and (problem := not_a_file(file)):
            raise StageError(f"{file} {problem}.", "Move it away, or put a dot in front of its name.")
    if not data:
        known = ", ".join(KINDS)
        raise DataError(f"{shown(word)} has no file that ends in {known}, plain or .gz.", "Check the path; --input-format reads all files.")
    if "*" not in word:
        _check_shards([file.name for file in data], shown(word))
    return data


def _local(path: Path) -> Sequence[DataFile]:
    if path.is_dir():
        return sorted(path.iterdir())
    if "*" in path.name and not os.path.lexists(path) and (found := sorted(path.parent.glob(path.name))):
        return found
    if problem := not_a_file(path):
        raise StageError(f"{path} {problem}.", "Check the path; - is standard input.")
    return [path]


def _is_data(file: DataFile, any_ending: bool) -> bool:
    """Return True for a file whose name ends as data does, or for any file, and is not hidden."""
    if file.name.startswith((".", "_")):
        return False
    is_folder = isinstance(file, Path) and file.is_dir()
    return Path(file.name.removesuffix(".gz")).suffix.lower() in KINDS or (any_ending and not is_folder)


def _check_shards(names: Sequence[str], folder: str) -> None:
    """Check that a folder has each shard of the sets that names such as ``train-00000-of-00012.parquet`` tell of."""
    found: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for match in filter(None, map(_SHARD.fullmatch, names)):
        found[match["name"], int(match["count"])].add(int(match["number"]))
    for (name, count), numbers in found.items():
        if missing := sorted(set(range(count)) - numbers):
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise DataError(
                f"{folder}: shard {name}-{missing[0]:05d}-of-{count:05d} is missing{more}.",
                f"Fetch it; to predict without it, name the files: '{folder.rstrip('/')}/*'.",
            )


@dataclass(frozen=True)
class Part:
    """The rows of a task: a file, or a part of one, with its number from 0."""

    source: Input
    number: int = 0
    count: int = 1

    @property
    def path(self) -> DataFile:
        """The file."""
        if self.source.path is None:
            raise ValueError("standard input has no parts")
        return self.source.path

    @property
    def is_last(self) -> bool:
        """True for the last part of the file."""
        return self.number == self.count - 1

    def result_name(self, kind: Kind) -> str:
        """Return the name of its result: ``a.csv.parquet`` of ``a.csv``, ``a.parquet`` of ``a.parquet``; with numbers if it is a part."""
        stem = self.path.name.removesuffix(f".{kind}")
        return f"{stem}.{kind}" if self.count == 1 else f"{stem}-{self.number:05d}-of-{self.count:05d}.{kind}"


def divide(source: Input) -> list[Part]:
    """Divide a file into tasks: a Parquet file into parts of ``TASK_ROWS`` rows, any other file into one.

    Raises:
        DataError: It is not a Parquet file, or a damaged one.
    """
    path = source.path
    if path is None or source.kind != "parquet" or is_gzip(path):
        return [Part(source)]
    with open_parquet(path, OPTIONS, source.limits) as file:
        rows = file.rows
    if rows <= TASK_ROWS:
        return [Part(source)]
    ranges = [range(start, min(start + TASK_ROWS, rows)) for start in range(0, rows, TASK_ROWS)]
    return [Part(dataclasses.replace(source, part=part), number, len(ranges)) for number, part in enumerate(ranges)]
