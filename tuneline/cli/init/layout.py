"""How the user's files are written, from their names, bytes and first records, and where their copies go.

The user's files are only read, whatever folders and links they are in. A copy never overwrites a copy that differs without an answer to
a question, and no file is deleted.
"""

import codecs
import csv
import filecmp
import itertools
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from tuneline.core.errors import DataError
from tuneline.core.files import replace_file
from tuneline.core.paths import SOURCE, SPLITS
from tuneline.readers.files import not_a_file
from tuneline.readers.rows import DEFAULT_LIMITS, ENDINGS, PARAMETERS, Limits, OptionNames, listed
from tuneline.readers.text import explained, is_encoded, known_encoding, open_bytes, open_text

Family = Literal["delimited", "jsonl", "parquet"]
Quoting = Literal["standard", "literal"]

KINDS: dict[str, Family] = {
    ".csv": "delimited",
    ".tsv": "delimited",
    ".tab": "delimited",
    ".txt": "delimited",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
HINTS = {
    ".json": "Write one object per line: jq -c '.[]' FILE.json > FILE.jsonl",
    ".xlsx": "Save the sheet as CSV (UTF-8).",
    ".xls": "Save the sheet as CSV (UTF-8).",
    ".zip": "Unpack it first.",
}
SOURCES = OptionNames("the delimiter", "the quoting", "the first row", "--encoding")
"""What messages name instead of options: ``tuneline init`` detects them."""
DELIMITERS = (",", "\t", ";", "|")
SAMPLE = 2**20
"""Characters from which the layout is detected."""
LONGEST_FIELD = 2**31 - 1
"""Characters. With the wrong dialect, a field of the sample may run to its end."""


@dataclass(frozen=True)
class Layout:
    """How a file is written.

    Attributes:
        encoding: Encoding of a text file; ``utf-8-sig`` if it begins with a byte order mark.
        delimiter, quoting: Of delimited files, as in ``data.files``.
        header: The first record names the columns (delimited files).
    """

    kind: Family
    compressed: bool
    encoding: str = "utf-8"
    delimiter: str = ","
    quoting: Quoting = "standard"
    header: bool = True

    @property
    def suffix(self) -> str:
        """The suffix by which ``data.source: files`` knows this layout."""
        if self.kind == "parquet":
            return ".parquet"
        plain = ".jsonl" if self.kind == "jsonl" else ".tsv" if self.delimiter == "\t" else ".csv"
        return plain + (".gz" if self.compressed else "")

    def reader(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """Split lines into records of cells. Unlike the core's reader, this one accepts records of any form."""
        csv.field_size_limit(LONGEST_FIELD)
        return csv.reader(lines, delimiter=self.delimiter, quoting=csv.QUOTE_NONE if self.quoting == "literal" else csv.QUOTE_MINIMAL)


def detect_layout(path: Path, encoding: str | None = None, limits: Limits = DEFAULT_LIMITS) -> Layout:
    """Detect how a file is written; ``encoding`` is that which the user named.

    Raises:
        DataError: The file is missing, empty, too large, or in a format that the pipeline does not read.
    """
    if problem := not_a_file(path):
        raise DataError(f"{path} {problem}.", "Name the files in it, one per split." if path.is_dir() else "Check the path; name a file.")
    compressed = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if compressed else path).suffix.lower()
    if suffix not in KINDS:
        raise DataError(f"{path}: unknown suffix {suffix!r}.", HINTS.get(suffix, f"Known: {', '.join(KINDS)}; also .gz."))
    layout = Layout(KINDS[suffix], compressed)
    if layout.kind == "parquet":
        return layout
    layout = replace(layout, encoding=detect_encoding(path, limits) if encoding is None else known_encoding(encoding))
    return layout if layout.kind == "jsonl" else detect_dialect(path, layout, suffix, limits)


def detect_dialect(path: Path, layout: Layout, suffix: str, limits: Limits = DEFAULT_LIMITS) -> Layout:
    """Return the layout with the delimiter, quoting and header that split the first records most evenly."""
    lines = _sample(path, layout.encoding, limits)
    if not any(line.strip() for line in lines):
        raise DataError(f"{path} is empty.", "It needs a header line and rows.")
    usual, quotings = "\t" if suffix in {".tsv", ".tab"} else ",", get_args(Quoting)
    candidates = [
        replace(layout, delimiter=delimiter, quoting=quoting)
        for delimiter in sorted(DELIMITERS, key=lambda one: one != usual)
        for quoting in (quotings[::-1] if delimiter == "\t" else quotings)
    ]
    best = max(candidates, key=lambda one: fit(lines, one))  # max returns the first of equals: the usual dialect
    return replace(best, header=has_header(list(itertools.islice(best.reader(iter(lines)), 1000))))


def _sample(path: Path, encoding: str, limits: Limits) -> list[str]:
    sample, size = [], 0
    with open_text(path, encoding, limits=limits) as lines:
        for line in lines:
            sample.append(line)
            size += len(line)
            if size >= SAMPLE:
                break
    return sample


def fit(lines: Sequence[str], layout: Layout) -> tuple[float, float]:
    """Return how well a layout fits some lines: the fraction of records with the most common number of cells, and of tidy quotes.

    The first is 0 where records have one cell. A file with literal quotes becomes irregular when they are read as quoting: cells
    run over line ends, or text follows a closing quote, which the strict mode of the csv module refuses.
    """
    counts = Counter(len(cells) for cells in layout.reader(iter(lines)) if cells)
    width, agreeing = counts.most_common(1)[0]
    return (agreeing / counts.total() if width > 1 else 0.0), tidiness(lines, layout)


def tidiness(lines: Sequence[str], layout: Layout) -> float:
    """Return how regular the quotes are under a layout, from 0 to 1; 1 if there are none."""
    quoted = [line for line in lines if '"' in line]
    if not quoted:
        return 1.0
    if layout.quoting == "literal":  # cells that are completely quoted are not literal
        cells = [cell.strip() for line in quoted for cell in line.split(layout.delimiter)]
        return sum(not (len(cell) > 1 and cell[0] == cell[-1] == '"') for cell in cells) / len(cells)
    reader = csv.reader(iter(lines), delimiter=layout.delimiter, strict=True)
    while True:
        before = reader.line_num
        try:
            next(reader)
        except StopIteration:
            return 1.0
        except csv.Error:
            end_of_sample = reader.line_num == len(lines) and reader.line_num - before < 100
            return 1.0 if end_of_sample else 0.0


def has_header(records: Sequence[Sequence[str]]) -> bool:
    """Return True if the first record names the columns.

    Its cells differ, none is a number or occurs in its column again, and they are short, or there is a column of classes (the first
    class of which would occur again). A file that was appended to another has its header again: such records do not count.
    """
    first, *rest = [record for record in records if record]
    if len(set(first)) < len(first) or any(_is_number(cell) for cell in first):
        return False
    columns = list(zip(*(record for record in rest if len(record) == len(first) and _plain(record) != _plain(first)), strict=True))
    if any(cell in column for cell, column in zip(first, columns, strict=False)):
        return False
    if not first[0].strip():  # pandas writes its index without a name
        return len(first) > 1 and bool(columns) and all(map(_is_number, columns[0])) and all(map(_is_name, first[1:]))
    return all(map(_is_name, first)) or (all(map(str.strip, first)) and any(len(set(one)) <= len(one) // 10 for one in columns))


def _plain(record: Sequence[str]) -> list[str]:
    return sorted(cell.strip('\ufeff "').casefold() for cell in record)


def _is_name(cell: str) -> bool:
    return 0 < len(cell.strip()) <= 60 and len(cell.split()) <= 4


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


WESTERN = "cp1252"
"""The encoding in which Excel saves CSV files in Western Europe and America."""
MOST_ACCENTS = 0.5
"""Largest share of letters beyond ASCII in a Western European text; 5 % are usual."""
MOST_ACCIDENTS = 0.05
"""Share of lines of a single-byte encoding that are valid UTF-8 by accident."""


@dataclass
class BrokenLines:
    """Lines with characters beyond ASCII.

    Attributes:
        valid: Number of those that are UTF-8.
        count: Number of the others.
        high, letters: Bytes beyond ASCII and ASCII letters in them.
        foreign: One of them is not cp1252 either.
    """

    valid: int = 0
    count: int = 0
    high: int = 0
    letters: int = 0
    foreign: bool = False

    def add(self, line: bytes) -> None:
        """Count one line that is not ASCII."""
        if is_encoded(line, "utf-8"):
            self.valid += 1
            return
        self.count += 1
        self.high += sum(byte >= 0x80 for byte in line)
        self.letters += sum(byte < 0x80 and chr(byte).isalpha() for byte in line)
        self.foreign = self.foreign or not is_encoded(line, WESTERN)


def detect_encoding(path: Path, limits: Limits = DEFAULT_LIMITS) -> str:
    """Return UTF-8 or UTF-16 where the bytes allow it; cp1252 where no line beyond ASCII is UTF-8 and the letters fit.

    A file that is UTF-8 except for some lines is not guessed: any encoding for all of it would damage one part or the other.

    Raises:
        DataError: The file cannot be read, or the user has to correct lines or name the encoding.
    """
    with explained(str(path)), open_bytes(path, PARAMETERS, limits) as (content, _):
        start = content.read(4)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    lines = BrokenLines()
    with open_text(path, "latin-1", limits=limits) as text:  # which gives each byte as the character of its number
        for line in text:
            if not line.isascii():
                lines.add(line.encode("latin-1"))
    if not lines.count:
        return "utf-8-sig" if start.startswith(codecs.BOM_UTF8) else "utf-8"
    is_mixed, is_western = lines.valid > MOST_ACCIDENTS * lines.count, lines.high <= MOST_ACCENTS * (lines.high + lines.letters)
    if not is_mixed and is_western and not lines.foreign:
        return WESTERN
    with open_text(path, "utf-8", SOURCES, limits) as text:
        first = next(problem for _ in text if (problem := text.take_problem()))
    damage = f" To read every line in one encoding, which damages the others: --encoding {WESTERN}." if is_mixed else ""
    raise DataError(
        f"{path}, line {first.line:,}: {first.message}. Of the lines beyond ASCII, {lines.count:,} are not utf-8, and {lines.valid:,} are.",
        first.hint + damage,
    )


ALIASES = {"train": "train|training", "validation": "validation|valid|val|dev", "test": "test"}
ALL = "all"
"""Name of the copy of a single file: its rows are of all splits."""


@dataclass(frozen=True)
class Placement:
    """The files under ``data/source/``.

    Attributes:
        folder: ``data/source`` or a folder in it.
        specs: Name of the file of each split, without its suffix, as in ``data.splits``.
        copies: The user's files by the path of the copy to write; without those that are there already.
    """

    folder: Path
    specs: Mapping[str, str]
    suffix: str
    copies: Mapping[Path, Path] = field(default_factory=dict)

    @property
    def data_path(self) -> str | None:
        """The folder as in ``data.path``."""
        path = self.folder.relative_to(SOURCE).as_posix()
        return None if path == "." else path

    @property
    def replaced(self) -> list[Path]:
        """Files with another content that the copies replace."""
        return [target for target in self.copies if target.exists()]

    def file(self, split: str) -> Path:
        """Return the file that has the rows of a split."""
        return self.folder / f"{self.specs.get(split, self.specs['train'])}{self.suffix}"

    def write(self) -> None:
        """Write the copies, each atomically."""
        for target, source in self.copies.items():
            with replace_file(target) as partial:
                shutil.copyfile(source, partial)


def files_in(paths: Sequence[Path]) -> Sequence[Path]:
    """Return the files, or those of a single folder that have a known suffix; refuse a folder without any."""
    if len(paths) != 1 or not paths[0].is_dir():
        return paths
    found = [path for path in sorted(paths[0].iterdir()) if not path.name.startswith(".") and not path.is_dir()]
    known = [path for path in found if Path(path.name.lower().removesuffix(".gz")).suffix in KINDS]
    if not known:
        raise DataError(f"{paths[0]} has no file with one of the suffixes {', '.join(KINDS)}.", "Name a file, or another folder.")
    return known


def by_split(paths: Sequence[Path]) -> dict[str, Path]:
    """Return the file of each split: a single file is train; several files have the split in their names, and one of them is train."""
    if len(paths) == 1:
        return {"train": paths[0]}
    found: dict[str, Path] = {}
    for path in paths:
        words = re.split(r"[^a-z]+", path.name.lower())
        splits = [split for split, names in ALIASES.items() if any(re.fullmatch(names, word) for word in words)]
        if len(splits) != 1 or splits[0] in found:
            problem = "belongs to the same split as another file" if len(splits) == 1 else "the split is not clear from the name"
            raise DataError(f"{path}: {problem}.", "Name the files after the splits: train.csv, validation.csv, test.csv.")
        found[splits[0]] = path
    if "train" not in found:
        raise DataError("No file is named train.", "Name the files after the splits: train.csv, validation.csv, test.csv.")
    return {split: found[split] for split in SPLITS if split in found}


def place(files: Mapping[str, Path], originals: Sequence[Path], layout: Layout, name: str | None) -> Placement:
    """Return the placement of the file of each split that has one; files that are in ``data/source/`` stay in place if no name is given.

    Raises:
        DataError: The name is not a plain folder name, the folder has another file for the same split, or a copy would replace a
            file of the user, one of ``originals``.
    """
    placement = None if name else _in_place(files, layout.suffix)
    if placement is None:
        folder = SOURCE / folder_name(name, list(files.values()))
        specs = {split: ALL if len(files) == 1 else split for split in files}
        targets = {folder / f"{specs[split]}{layout.suffix}": path for split, path in files.items()}
        copies = {target: path for target, path in targets.items() if not (target.is_file() and filecmp.cmp(path, target, shallow=False))}
        placement = Placement(folder, specs, layout.suffix, copies)
        _protect(placement, originals)
    for split in files:
        own = placement.file(split)
        others = [path.name for ending in ENDINGS if (path := own.with_name(placement.specs[split] + ending)).exists() and path != own]
        if others:
            problem = f"{placement.folder} has {listed(others)} too, so the file of {split} would not be clear."
            raise DataError(problem, "Remove or rename it, or choose another folder: --name NAME")
    return placement


def _protect(placement: Placement, originals: Sequence[Path]) -> None:
    """Check that no copy would replace an original, a file in the folder of the originals, or one behind a link."""
    hint = "Choose another folder for the copies: --name NAME"
    folders = {path.parent.resolve() for path in originals}
    for target, source in placement.copies.items():
        real = target.resolve()
        if real != SOURCE.resolve() / target.relative_to(SOURCE):
            raise DataError(f"{target} is behind a link, to {real}, where nothing is written.", hint)
        if target.exists() and (real.parent in folders or any(target.samefile(path) for path in originals)):
            raise DataError(f"{target} is among your own files, which are only read; the copy of {source} would replace it.", hint)


def _in_place(files: Mapping[str, Path], suffix: str) -> Placement | None:
    folders = {path.parent.resolve() for path in files.values()}
    stems = {split: path.name.removesuffix(suffix) for split, path in files.items()}
    usable = all(re.fullmatch(r"\w+(\.\w+)*", stem, re.ASCII) and files[split].name == stem + suffix for split, stem in stems.items())
    folder = folders.pop()
    if folders or not usable or not folder.is_relative_to(SOURCE.resolve()):
        return None
    return Placement(SOURCE / folder.relative_to(SOURCE.resolve()), stems, suffix)


def folder_name(name: str | None, paths: Sequence[Path]) -> str:
    """Return the name of the folder: the user's, if it is a plain one, else that of a single file, else that of the folder of the files."""
    if name is None:
        stem = paths[0].name.split(".")[0] if len(paths) == 1 else paths[0].resolve().parent.name
        return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-") or "mine"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise DataError(f"--name {name!r} is not a folder name.", "Use letters, digits, '_', '-' and '.'.")
    return name
