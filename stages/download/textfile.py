"""Text files, plain or gzip, decoded strictly: what is no text ends with the line where it stops being text."""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TextIO, cast

from tuneline.errors import DataError

_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 16
LONGEST_LINE = 1 << 24
"""Characters. A longer line is no row: a whole file written as one JSON array, say, which would not fit into memory."""


@contextmanager
def open_text(path: Path, encoding: str) -> Iterator[Iterator[str]]:
    """Opens a text file and gives its lines, line ends untouched; a byte order mark is dropped.

    Args:
        path: Gzip when its name ends in ``.gz``.
        encoding: A name that Python knows.

    Raises:
        DataError: Here or while it is read: it is empty, no text in this encoding, no gzip, or cut off; or a line is too long.
    """
    codec = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    try:
        _refuse_binary(path, codec)
        with open_bytes(path) as raw, io.TextIOWrapper(raw, encoding=codec, newline="") as text:
            yield _lines(path, text)
    except UnicodeError as error:
        raise _undecodable(path, codec, error) from None


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file for reading, unpacked when its name ends in ``.gz``.

    Raises:
        DataError: Here or while it is read: it cannot be read, is no gzip, or is cut off.
    """
    try:
        with path.open("rb") as raw:
            yield cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if path.suffix == ".gz" else raw
    except EOFError:
        raise DataError(f"{path}: the gzip file ends too early.", "It was cut off, as by a broken download: fetch it again.") from None
    except gzip.BadGzipFile as error:
        hint = "Fetch it again; if it was never packed, take .gz off its name."
        raise DataError(f"{path}: no gzip file, or a damaged one: {error}.", hint) from None
    except zlib.error as error:
        raise DataError(f"{path}: the gzip file is damaged: {error}.", "Fetch it again.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None


def _lines(path: Path, text: TextIO) -> Iterator[str]:
    for number, line in enumerate(iter(partial(text.readline, LONGEST_LINE), ""), start=1):
        if len(line) == LONGEST_LINE:
            hint = "Each row stands on a line of its own; an array of JSON objects is no JSON Lines file."
            raise DataError(f"{path}, line {number:,}: longer than {LONGEST_LINE:,} characters.", hint)
        yield line


def _refuse_binary(path: Path, codec: str) -> None:
    with open_bytes(path) as raw:
        start = raw.read(_CHUNK)
    if not start:
        raise DataError(f"{path} is empty.", "Fill it, or take another file in data.splits.")
    if start.startswith(_GZIP):
        raise DataError(f"{path} is a gzip file, and its name does not say so.", f"Name it {path.name}.gz.")
    wide = codecs.lookup(codec).name.startswith(("utf-16", "utf-32"))
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not wide:
        problem = f"{path}, line 1: not {_plain(codec)}, but utf-16 by its byte order mark."
        raise DataError(problem, "Set data.files.encoding to utf-16.")
    if b"\0" in start and not wide:
        raise DataError(f"{path} is a binary file: it holds a zero byte.", "CSV, TSV and JSONL are text; Parquet files are named .parquet.")


def _undecodable(path: Path, codec: str, error: UnicodeError) -> DataError:
    line, byte = _first_fault(path, codec)
    what = f"byte 0x{byte:02x}" if byte is not None else str(error)
    hint = "Save it as utf-8, or set data.files.encoding to what it is (cp1252 and latin-1 are common)."
    return DataError(f"{path}, line {line:,}: not {_plain(codec)}: {what}.", hint)


def _plain(codec: str) -> str:
    return codec.removesuffix("-sig")


def _first_fault(path: Path, codec: str) -> tuple[int, int | None]:
    """Reads again from the start: a decoder tells only where in its buffer it stopped."""
    decoder = codecs.getincrementaldecoder(codec)()
    line = 1
    with open_bytes(path) as raw:
        while True:
            chunk = raw.read(_CHUNK)
            try:
                line += decoder.decode(chunk, final=not chunk).count("\n")
            except UnicodeDecodeError as error:
                before = error.object[: error.start].decode(codec, errors="ignore")
                return line + before.count("\n"), error.object[error.start]
            except UnicodeError:
                return line, None
            if not chunk:
                return line, None
