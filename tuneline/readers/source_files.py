"""The files of a split under ``data/source/``: one that is named after the split, a folder of batches, or both.

Files as the hub names them, ``train-00000-of-00012.parquet``, are read as batches without a day.

A batch is a file in the folder ``SPLIT/`` whose name begins with its day (UTC): ``train/2026-11-21-tickets-0f3a91c2.parquet``. The rows
of a split are those of its file, then those of its batches in the order of their names.
"""

import datetime
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tuneline.errors import DataError
from tuneline.files.shards import split_files
from tuneline.readers.rows import ENDINGS, listed
from tuneline.readers.special_files import not_a_file

_DATED = re.compile(r"(\d{4}-\d\d-\d\d)(?!\d)")
Day = datetime.date
_MOVE = "Move it away, or put a dot in front of its name."


@dataclass(frozen=True)
class SplitFiles:
    """The files of one split.

    Attributes:
        file: The file named after the split, if there is one.
        batches: The batches, in the order of their names.
    """

    file: Path | None
    batches: tuple[Path, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files, in the order of their rows."""
        return (*([] if self.file is None else [self.file]), *self.batches)


def find_files(folder: Path, split: str) -> SplitFiles:
    """Find the files of a split.

    Raises:
        DataError: There is none, more than one file is named after the split, what is named after it is no file, or its folder has
            something that is not a batch.
    """
    found = [path for ending in ENDINGS if os.path.lexists(path := folder / f"{split}{ending}")]
    for path in found:
        if problem := not_a_file(path):
            raise DataError(f"{path} {problem}.", f"Rename it: batches are in a folder {split}/." if path.is_dir() else _MOVE)
    if len(found) > 1:
        raise DataError(f"{folder}: split {split!r} has {len(found)} files: {listed(path.name for path in found)}.", "Keep one.")
    shards = [path for path in split_files(folder, split) if path not in found]
    if found and shards:
        raise DataError(f"{folder}: split {split!r} is {found[0].name} and {shards[0].name}.", "Keep one of them.")
    files = SplitFiles(found[0] if found else None, (*shards, *_batches(folder / split)))
    if not files.paths:
        raise DataError(f"{folder} has no file for split {split!r}.", _hint(folder, split))
    return files


def _batches(folder: Path) -> Iterator[Path]:
    if os.path.lexists(folder) and not folder.is_dir() and (problem := not_a_file(folder)):
        raise DataError(f"{folder}, named like a folder of batches, {problem}.", _MOVE)
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.suffix == ".dvc" and not (data := path.with_suffix("")).exists():
            raise DataError(f"{data} is missing, but {path.name} names it.", "Get it with `dvc checkout` or `dvc pull`.")
        if path.suffix == ".dvc" or path.name.startswith("."):
            continue
        if problem := not_a_file(path):
            raise DataError(f"{path}, in a folder of batches, {problem}.", _MOVE)
        if not path.name.endswith(ENDINGS):
            raise DataError(f"{path} is in a folder of batches, but it is not a file that ends in {', '.join(ENDINGS)}.", _MOVE)
        yield path


def _hint(folder: Path, split: str) -> str:
    expected = f"Expected {split}.csv, .tsv, .jsonl or .parquet, plain or .gz, or a folder {split}/ with such files"
    present = sorted(path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    other = next((name for name in present if name.partition(".")[0] == split), None)
    if other is not None:
        return f"{expected}; {other} has another suffix."
    remedy = f"Rename a file, name another in data.splits.{split}, or divide one with data.split."
    return f"{expected}; the folder has {listed(present) or 'no files'}. {remedy}"


def choose_files(splits: Mapping[str, SplitFiles], as_of: str | None, last_days: int | None) -> dict[str, tuple[Path, ...]]:
    """Return the files of each split that ``data.as_of`` and ``data.last_days`` leave.

    A split without batches is read whole: it is not one that grows. With ``last_days``, the file of a split with batches is left out,
    because nothing says how old its rows are.

    Args:
        splits: The files of all splits that are read.
        as_of: The last day, as ``YYYY-MM-DD``; ``None``: that of the newest batch of all splits.
        last_days: Number of days; ``None``: all.

    Raises:
        DataError: A batch has no date, or no batch is of these days, or a split has no file of them.
    """
    if as_of is None and last_days is None:
        return {split: files.paths for split, files in splits.items()}
    option = "data.last_days" if as_of is None else "data.as_of"
    days = {path: _day(path, option) for files in splits.values() for path in files.batches}
    if not days:
        raise DataError(
            f"{option} is set, but no split has a folder of batches.",
            f"Set {option} to null, or put batches into a folder SPLIT/.",
        )
    last = max(days.values()) if as_of is None else Day.fromisoformat(as_of)
    first = Day.fromordinal(max(last.toordinal() - last_days + 1, 1)) if last_days else Day.min
    chosen = {path for path, day in days.items() if first <= day <= last}
    period = f"from {first} to {last}" if last_days else f"up to {last}"
    hint = f"The batches are of {min(days.values())} to {max(days.values())}; change {option}."
    if not chosen:
        raise DataError(f"{option}: there is no batch {period}.", hint)
    result = {}
    for split, files in splits.items():
        undated = () if files.file is None or (last_days and files.batches) else (files.file,)
        result[split] = (*undated, *(path for path in files.batches if path in chosen))
        if not result[split]:
            raise DataError(f"{option}: split {split!r} has no batch {period}.", hint)
    return result


def _day(path: Path, option: str) -> Day:
    found = _DATED.match(path.name)
    try:
        return Day.fromisoformat(found[1] if found else "")
    except ValueError:
        hint = f"Rename it, such as 2026-11-21-{path.name}, or set {option} to null."
        raise DataError(f"{path}: {option} is set, but the name of this batch does not begin with a date.", hint) from None
