"""The files to predict: what the arguments of the command name, and the tasks that they are divided into."""

import dataclasses
import os
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tuneline.errors import DataError, StageError
from tuneline.inputs import KINDS, OPTIONS, Input
from tuneline.readers.listing import list_files
from tuneline.readers.packed import is_gzip
from tuneline.readers.parquet import open_parquet
from tuneline.readers.rows import Kind
from tuneline.readers.special_files import not_a_file
from tuneline.readers.urls import DataFile, RemoteFile, is_url, shown

TASK_ROWS = 50_000
"""Rows of a Parquet file that are one task. The number is fixed so that the same rows always give the same bytes: a batch does not reach
from one task into the next."""
SCHEME_OF_PATHS = "file://"
_SHARD = re.compile(r"(?P<name>.*)-(?P<number>\d{5,})-of-(?P<count>\d{5,})\..*")


def find_inputs(words: Sequence[str], any_ending: bool) -> list[DataFile]:
    """Return the files that words name: files, folders, patterns with ``*``, and URLs of each.

    Args:
        words: The words.
        any_ending: Files of a folder or pattern are read whatever their names end in; otherwise others than data are left out.

    Raises:
        StageError: One names no file.
        DataError: A storage has none, or a folder has not all shards of a set.
    """
    return [found for word in words for found in _named(word, any_ending)]


def as_path(word: str) -> Path:
    """Return the path that a word names, which may be a URL ``file://``."""
    return Path(unquote(urlsplit(word).path) if word.startswith(SCHEME_OF_PATHS) else word)


def is_remote(word: str) -> bool:
    """Return True for the URL of a storage, such as ``s3://bucket/folder``."""
    return is_url(word) and not word.startswith(SCHEME_OF_PATHS)


def _named(word: str, any_ending: bool) -> Sequence[DataFile]:
    """Return the files that one word names; of a folder or pattern, those with rows."""
    files = list_files(word) if is_remote(word) else _local(as_path(word))
    if len(files) == 1 and (str(files[0]) == str(as_path(word)) or (isinstance(files[0], RemoteFile) and files[0].url == word)):
        return files
    data = [file for file in files if not file.name.startswith((".", "_")) and (_is_data(file.name) or (any_ending and _is_file(file)))]
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


def _is_file(file: DataFile) -> bool:
    return not isinstance(file, Path) or not file.is_dir()


def _is_data(name: str) -> bool:
    return Path(name.removesuffix(".gz")).suffix.lower() in KINDS


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
    """The rows of a task: a file, or a part of one.

    Attributes:
        source: The rows.
        number: Number of the part, from 0.
        count: Number of parts of the file.
    """

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
