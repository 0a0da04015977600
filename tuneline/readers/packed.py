"""Bytes of a file, of a pipe or of standard input, plain or gzip."""

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO, cast

from tuneline.errors import DataError, UnreadableError
from tuneline.readers.limits import DEFAULT_LIMITS, MB, Limits, too_large
from tuneline.readers.rows import PARAMETERS, OptionNames
from tuneline.readers.urls import DataFile, RemoteFile

GZIP_MAGIC = b"\x1f\x8b"
CHUNK = 1 << 16
"""Bytes that are read at a time."""


@contextmanager
def open_bytes(
    path: DataFile | None, options: OptionNames = PARAMETERS, limits: Limits = DEFAULT_LIMITS, *, strict: bool = True
) -> "Iterator[tuple[io.BufferedReader[Any], BinaryIO]]":
    """Open a file, plain or gzip, for reading bytes.

    Args:
        path: The file; ``None`` for standard input. Standard input and pipes have no name that could end in ``.gz``: they are
            unpacked if they start like a gzip file.
        options: Names of the settings, for hints.
        limits: Reading more than ``limits.unpacked`` bytes from a gzip file raises a ``DataError``.
        strict: Unpack exactly the files whose names end in ``.gz``; otherwise those that start like a gzip file.

    Yields:
        The unpacked content, and the file as it is on disk.

    Raises:
        DataError: The file cannot be opened, or is a gzip file by its content but not by its name.
    """
    name = "standard input" if path is None else str(path)
    with ExitStack() as stack:
        with explained(name):
            raw = sys.stdin.buffer if path is None else stack.enter_context(_opened(path))
            buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", raw))
            named = path if strict and path is not None and path.is_file() else None
            packed = _is_packed(buffered, named)
        content = io.BufferedReader(Unpacked(buffered, name, options, limits), CHUNK) if packed else buffered
        yield content, raw


def _opened(path: DataFile) -> "BinaryIO | io.BufferedReader[Any]":
    return path.open_bytes() if isinstance(path, RemoteFile) else path.open("rb", buffering=CHUNK)


class Unpacked(io.RawIOBase):
    """The content of a gzip file, which is counted while it is read."""

    def __init__(self, packed: io.BufferedReader, name: str, options: OptionNames, limits: Limits) -> None:
        super().__init__()
        self._content = gzip.GzipFile(fileobj=cast("BinaryIO", _Arriving(packed)), mode="rb")
        self._name = name
        self._option = options.unpacked
        self._limit = limits.unpacked
        self._size = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read what is there, at most as much as the buffer holds.

        Raises:
            DataError: The content is larger than the limit.
        """
        content = self._content.read1(len(buffer))
        self._size += len(content)
        if self._size > self._limit:
            raise too_large(self._name, "it unpacks to more", f"{self._limit / MB:,.0f} MB", self._option)
        buffer[: len(content)] = content
        return len(content)


class _Arriving:
    """A file for ``GzipFile``, whose ``read`` returns what has arrived: that of a ``BufferedReader`` waits for all that it asks for."""

    def __init__(self, file: io.BufferedReader) -> None:
        self.read = file.read1


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Replace errors of the operating system and of gzip by errors for users.

    Raises:
        UnreadableError: The operating system does not read the file called ``name``.
        DataError: It is a damaged gzip file.
    """
    try:
        yield
    except EOFError:
        raise DataError(f"{name}: the gzip file ends too early.", "It was cut off, as by a broken download: fetch it again.") from None
    except gzip.BadGzipFile as error:
        raise DataError(
            f"{name}: not a gzip file, or a damaged one: {error}.", "Fetch it again; a plain file must not end in .gz."
        ) from None
    except zlib.error as error:
        raise DataError(f"{name}: the gzip file is damaged: {error}.", "Fetch it again.") from None
    except OSError as error:
        raise UnreadableError(
            f"{name} cannot be read: {error.strerror or error}.", "Check that it exists and that you may read it."
        ) from None


def _is_packed(raw: io.BufferedReader, path: DataFile | None) -> bool:
    """Tell by the name of the file, or by its content where there is no name."""
    packed = raw.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC)
    if path is not None and packed and not is_gzip(path):
        raise DataError(f"{path} is a gzip file, and its name does not end in .gz.", f"Name it {path.name}.gz.")
    return packed or (path is not None and is_gzip(path))


def is_gzip(path: DataFile) -> bool:
    """Return True if the name of a file ends in ``.gz``."""
    return path.suffix.lower() == ".gz"
