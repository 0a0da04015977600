"""What is predicted: a file or standard input, of which kind, packed or not, and how far it has been read."""

import codecs
import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, cast

from tuneline.cli.predict.rows import Rows, Wanted
from tuneline.cli.predict.textfiles import Dialect, read_delimited, read_jsonl
from tuneline.errors import DataError

Kind = Literal["csv", "tsv", "jsonl", "parquet"]
KINDS: dict[str, Kind] = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Input:
    """Where rows come from.

    Attributes:
        path: A file; ``None`` for standard input.
        kind: How it is written.
        dialect: Of CSV and TSV.
        encoding: Of text.
    """

    path: Path | None
    kind: Kind
    dialect: Dialect
    encoding: str = "utf-8"

    @property
    def name(self) -> str:
        """What messages call it."""
        return "standard input" if self.path is None else str(self.path)


def kind_of(path: Path, option: str) -> Kind:
    """The kind that a file's name tells, ``.gz`` aside.

    Raises:
        DataError: It tells none.
    """
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix not in KINDS:
        raise DataError(f"{path}: its name does not tell what kind of file it is.", f"Say it: {option} csv, tsv, jsonl or parquet.")
    return KINDS[suffix]


@dataclass(frozen=True)
class Opened:
    """An input that is being read.

    Attributes:
        rows: Its rows.
        total: Its size, where that is known: bytes of a text file as it lies on disk, rows of a Parquet file.
        position: How much of that has been read; ``None`` where rows are counted.
    """

    rows: Rows
    total: int | None = None
    position: Callable[[], int] | None = None


@contextmanager
def open_rows(source: Input, wanted: Wanted) -> Iterator[Opened]:
    """Opens an input for reading row by row.

    Raises:
        DataError: Here or while reading: the input as a whole cannot be read. Faults of single rows are among the rows.
    """
    with ExitStack() as stack:
        with _explained(source):
            opened = _opened(source, wanted, stack)
        yield Opened(_guarded(source, opened.rows), opened.total, opened.position)


def _opened(source: Input, wanted: Wanted, stack: ExitStack) -> Opened:
    if source.kind == "parquet":
        from tuneline.cli.predict.parquet import open_parquet

        return Opened(*stack.enter_context(open_parquet(source.path, source.name, wanted)))
    if source.path is None:
        return Opened(_text_rows(source, cast("BinaryIO", sys.stdin.buffer), wanted, stack))
    raw = stack.enter_context(source.path.open("rb"))
    if not source.path.is_file():  # a pipe has no size
        return Opened(_text_rows(source, raw, wanted, stack))
    return Opened(_text_rows(source, raw, wanted, stack), source.path.stat().st_size, raw.tell)


def _guarded(source: Input, rows: Rows) -> Rows:
    with _explained(source):
        yield from rows


@contextmanager
def _explained(source: Input) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{source.name} is a damaged gzip file: {error}", "It may be cut off: fetch or pack it again.") from None
    except UnicodeError as error:  # of encodings that cannot step over what is wrong
        raise DataError(f"{source.name} is not {source.encoding} text: {error}", "Name its encoding with --encoding.") from None
    except OSError as error:
        raise DataError(f"{source.name} cannot be read: {error.strerror or error}.") from None


def _text_rows(source: Input, raw: BinaryIO, wanted: Wanted, stack: ExitStack) -> Rows:
    buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", raw))
    packed = buffered.peek(2).startswith(GZIP)
    unpacked = cast("BinaryIO", gzip.GzipFile(fileobj=buffered)) if packed else cast("BinaryIO", buffered)
    codec = "utf-8-sig" if codecs.lookup(source.encoding).name == "utf-8" else source.encoding
    text = io.TextIOWrapper(unpacked, encoding=codec, errors="surrogateescape", newline="")
    stack.callback(text.detach)  # or it would close what lies below as soon as the last row is read
    if source.kind == "jsonl":
        return read_jsonl(text, wanted)
    return read_delimited(text, source.name, source.dialect, wanted)
