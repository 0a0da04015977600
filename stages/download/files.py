"""Files under ``data/source/`` as a source: one per split, named after it, a folder of batches, or both.

Files as the hub names them, ``train-00000-of-00012.parquet``, are read as batches without a day. A batch is a
file in the folder ``SPLIT/`` whose name begins with its day (UTC):
``train/2026-11-21-tickets-0f3a91c2.parquet``. The rows of a split are the rows of its file, then the rows of
its batches in the order of their names.
"""

import datetime
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from stages.download.source import SourceFile, SourceSplit, source_splits
from tuneline.core.hashes import file_hash
from tuneline.core.raw_source import RemoteSource
from tuneline.core.tables import split_files
from tuneline.core.written_records import write_record
from tuneline.params.data import DataParams
from tuneline.paths import FETCHED, SOURCE
from tuneline.readers.files import (
    RemoteFile,
    file_system,
    is_url,
    list_files,
    not_a_file,
    reaching,
    refuse_address,
    shown,
)
from tuneline.readers.formats import ENDINGS, data_input
from tuneline.readers.labelled import LabelledColumns, labelled_rows
from tuneline.readers.rows import BadRows
from tuneline.readers.tables import open_table
from tuneline.runtime.atomic_files import replace_file
from tuneline.runtime.errors import DataError
from tuneline.runtime.terminal import progress
from tuneline.runtime.wording import listed

_DATED = re.compile(r"(\d{4}-\d\d-\d\d)(?!\d)")
Day = datetime.date
_MOVE = "Move it away, or put a dot in front of its name."


@dataclass(frozen=True)
class SplitFiles:
    """The file named after a split, if there is one, and its batches, in the order of their names."""

    file: Path | None
    batches: tuple[Path, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files, in the order of their rows."""
        if self.file is None:
            return self.batches
        return (self.file, *self.batches)


def find_files(folder: Path, split: str) -> SplitFiles:
    """Find the files of a split.

    Raises:
        DataError: There is no file; two files have the split's name, or something else than a file has it; or
            its folder holds something else than batches.
    """
    # the file named after the split
    paths = []
    for ending in ENDINGS:
        path = folder / f"{split}{ending}"
        if os.path.lexists(path):  # also a link to nothing
            paths.append(path)
    for path in paths:
        problem = not_a_file(path)
        if problem:
            hint = _MOVE
            if path.is_dir():
                hint = f"Rename it: batches are in a folder {split}/."
            raise DataError(f"{path} {problem}.", hint)
    if len(paths) > 1:
        names = listed(path.name for path in paths)
        raise DataError(f"{folder}: split {split!r} has {len(paths)} files: {names}.", "Keep one.")

    # shards, as the hub names them
    shards = [path for path in split_files(folder, split) if path not in paths]
    if paths and shards:
        raise DataError(
            f"{folder}: split {split!r} is {paths[0].name} and {shards[0].name}.", "Keep one of them."
        )

    # batches
    file = paths[0] if paths else None
    shards += _batch_files(folder / split)
    files = SplitFiles(file, tuple(shards))
    if not files.paths:
        raise DataError(f"{folder} has no file for split {split!r}.", _hint(folder, split))
    return files


def _batch_files(folder: Path) -> Iterator[Path]:
    """Yield the batches in the folder of a split, in the order of their names."""
    if not folder.is_dir():
        problem = _not_a_folder(folder)
        if problem:
            raise DataError(f"{folder}, named like a folder of batches, {problem}.", _MOVE)
        return

    for path in sorted(folder.iterdir()):
        if path.suffix == ".dvc":
            data = path.with_suffix("")
            if not data.exists():
                raise DataError(
                    f"{data} is missing, but {path.name} names it.",
                    "Get it with `dvc checkout` or `dvc pull`.",
                )
            continue
        if path.name.startswith("."):
            continue
        problem = not_a_file(path)
        if problem:
            raise DataError(f"{path}, in a folder of batches, {problem}.", _MOVE)
        if not path.name.endswith(ENDINGS):
            raise DataError(
                f"{path} is in a folder of batches, but it is not a file that ends in {', '.join(ENDINGS)}.",
                _MOVE,
            )
        yield path


def _not_a_folder(path: Path) -> str | None:
    """Return what is wrong with a path that is no folder; ``None`` if it is a plain file, or absent."""
    if os.path.lexists(path):  # also a link to nothing
        return not_a_file(path)
    return None


def _hint(folder: Path, split: str) -> str:
    expected = (
        f"Expected {split}.csv, .tsv, .jsonl or .parquet, plain or .gz, or a folder {split}/ with such files"
    )
    names = []
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith("."):
            names.append(path.name)
    for name in names:
        if name.partition(".")[0] == split:
            return f"{expected}; {name} has another suffix."
    remedy = f"Rename a file, name another in data.splits.{split}, or divide one with data.split."
    return f"{expected}; the folder has {listed(names) or 'no files'}. {remedy}"


def choose_files(
    splits: Mapping[str, SplitFiles], as_of: str | None, last_days: int | None
) -> dict[str, tuple[Path, ...]]:
    """Return the files of each split that ``data.as_of`` and ``data.last_days`` leave.

    The default of ``data.as_of`` is the day of the newest batch.

    A split without batches is read whole: it is not one that grows. With ``last_days``, the file of a split
    with batches is left out, because nothing says how old its rows are. A batch without a date is refused,
    and so is a split without a file of these days.
    """
    if as_of is None and last_days is None:
        return {split: files.paths for split, files in splits.items()}

    option = "data.last_days" if as_of is None else "data.as_of"
    days = _days_of_batches(splits, option)

    # first and last day
    if as_of is None:
        last = max(days.values())
    else:
        last = Day.fromisoformat(as_of)
    if last_days:
        first = Day.fromordinal(max(last.toordinal() - last_days + 1, 1))
        period = f"from {first} to {last}"
    else:
        first = Day.min
        period = f"up to {last}"

    # batches of these days
    chosen = set()
    for path, day in days.items():
        if first <= day <= last:
            chosen.add(path)
    hint = f"The batches are of {min(days.values())} to {max(days.values())}; change {option}."
    if not chosen:
        raise DataError(f"{option}: there is no batch {period}.", hint)

    # files of each split
    result = {}
    for split, files in splits.items():
        paths = [path for path in files.batches if path in chosen]
        is_too_old = last_days and files.batches  # nothing says how old the rows of the file are
        if files.file is not None and not is_too_old:
            paths.insert(0, files.file)
        if not paths:
            raise DataError(f"{option}: split {split!r} has no batch {period}.", hint)
        result[split] = tuple(paths)
    return result


def _days_of_batches(splits: Mapping[str, SplitFiles], option: str) -> dict[Path, Day]:
    """Return the day of each batch; refuse an ``option`` about days where there are no batches."""
    days = {}
    for files in splits.values():
        for path in files.batches:
            days[path] = _day(path, option)
    if not days:
        raise DataError(
            f"{option} is set, but no split has a folder of batches.",
            f"Set {option} to null, or put batches into a folder SPLIT/.",
        )
    return days


def _day(path: Path, option: str) -> Day:
    match = _DATED.match(path.name)
    try:
        return Day.fromisoformat(match[1] if match else "")
    except ValueError:
        hint = f"Rename it, such as 2026-11-21-{path.name}, or set {option} to null."
        raise DataError(
            f"{path}: {option} is set, but the name of this batch does not begin with a date.", hint
        ) from None


@dataclass(frozen=True)
class RemoteFolder:
    """The copy of a folder of a storage, and of each file in it the URL and the record."""

    folder: Path
    sources: Mapping[Path, tuple[str, RemoteSource]]

    @classmethod
    def fetch(cls, url: str, splits: Collection[str]) -> "RemoteFolder":
        """Copy the files of splits.

        Files that are whole already, and have not changed on the storage, are kept. If the storage cannot be
        reached, what was copied is kept for the next try.
        """
        with reaching(shown(url)):
            files, path = file_system(url)
            base = files.unstrip_protocol(path).rstrip("/")
        scheme, _, place = base.partition("://")
        if ".." in Path(place).parts:
            raise DataError(f"data.path: {shown(url)} contains '..'.", "Write the address without it.")
        folder = FETCHED / scheme / place.lstrip("/")
        remote_files = {}
        for name, file in _files_of_splits(base, splits).items():
            remote_files[folder / name] = file

        # Remove what the storage has no more.
        kept = set(remote_files).union(map(_record, remote_files))
        for path in list(folder.rglob("*")):
            if path.is_file() and path not in kept and path.suffix != ".partial":
                path.unlink(missing_ok=True)  # another process, whose partial files stay, may do the same

        # copies
        total = sum(file.size for file in remote_files.values())
        sources = {}
        with progress(f"download: fetching {shown(url)}", total, unit="") as step:
            for path, file in remote_files.items():
                step.detail = file.name
                sources[path] = (str(file), _copy(file, path))
                step.advance(file.size)
        return cls(folder, sources)


def _files_of_splits(base: str, splits: Collection[str]) -> dict[str, RemoteFile]:
    """Return the files of splits in a folder of a storage, by their path in it."""
    files = list_files(f"{base}/", depth=2)
    if len(files) == 1 and files[0].url == base:
        raise DataError(
            f"data.path: {shown(base)} is a file; a folder is expected.",
            f"Write {shown(base.rpartition('/')[0])}.",
        )

    names_of_files = set()
    for split in splits:
        for ending in ENDINGS:
            names_of_files.add(f"{split}{ending}")
    of_splits = {}
    for file in files:
        name = file.url.removeprefix(f"{base}/")
        is_of_split = name in names_of_files or name.rpartition("/")[0] in splits
        if is_of_split and not file.name.startswith("."):
            of_splits[name] = file
    if not of_splits:
        expected = " or ".join(f"{split}.csv, {split}.parquet, {split}/..." for split in splits)
        raise DataError(f"data.path: {shown(base)} has no file of these splits.", f"Expected {expected}")
    return of_splits


def _copy(file: RemoteFile, path: Path) -> RemoteSource:
    """Copy a file, unless that was done. Its record, beside it, is written last."""
    record = RemoteSource.read_if_valid(_record(path))
    if record and path.is_file() and file.version is not None:
        is_unchanged = record.size == file.size and record.version == file.version
        if is_unchanged:
            return record

    with replace_file(path) as partial:
        file.fetch(partial)
    record = RemoteSource(size=file.size, version=file.version, sha256=file_hash(path))
    write_record(_record(path), record)
    return record


def _record(path: Path) -> Path:
    return path.with_name(f".{path.name}.json")


class Files:
    """A folder with the files of each split.

    Such as ``train.csv``, ``validation.jsonl.gz``, batches in ``train/``, in any combination.
    """

    def __init__(self, params: DataParams) -> None:
        """Find the files of the splits in ``data.splits``, of the days that ``data`` names."""
        # splits of the source
        self.params = params.files
        names: dict[str, None] = {}  # in order, each once
        for split, spec in params.source_specs.items():
            names |= dict.fromkeys(source_splits(split, spec))

        # their folder: a copy, if the files are in a storage
        self.remote = None
        if params.path and is_url(params.path):
            refuse_address("data.path", params.path)
            self.remote = RemoteFolder.fetch(params.path, names)
            self.folder = self.remote.folder
        else:
            self.folder = _folder(params.path)
        self.splits = {name: find_files(self.folder, name) for name in names}
        self.chosen = choose_files(self.splits, params.as_of, params.last_days)

    def read(self, split: str, columns: LabelledColumns) -> SourceSplit:
        """Open the files of one split."""
        files = [self._open(path, columns) for path in self.chosen[split]]
        if len(files) == 1:
            return SourceSplit.of(files[0])
        return SourceSplit(f"{self.folder / split} ({len(files)} files)", files)

    def _open(self, path: Path, columns: LabelledColumns) -> SourceFile:
        source = data_input(path, self.params)
        with open_table(source) as table:
            names = columns.declared(table)
        bad = BadRows(table.name, source.unit, columns.policy)

        def batches() -> Iterator[pa.RecordBatch]:
            with open_table(source) as table:
                yield from labelled_rows(table, columns, bad)

        return SourceFile(bad, batches(), names)

    def provenance(self, rows: Mapping[str, int], /) -> dict[str, Any]:
        """Return the files that were read, and the rows of each batch; DVC tracks their content."""
        files = {}
        batches: dict[str, dict[str, int]] = {}
        for split, source_files in self.splits.items():
            chosen = self.chosen[split]
            if source_files.file in chosen:
                files[split] = source_files.file.as_posix()
            if source_files.batches:
                batches[split] = {}
                for path in chosen:
                    if path != source_files.file:
                        batches[split][path.as_posix()] = rows.get(str(path), 0)

        # what the storage had, by URL
        remote = None
        if self.remote is not None:
            remote = {}
            for chosen in self.chosen.values():
                for path in chosen:
                    url, record = self.remote.sources[path]
                    remote[url] = record.model_dump(mode="json")
        return {"files": files, "batches": batches or None, "remote": remote}


def _folder(path: str | None) -> Path:
    """Return the folder that ``data.path`` names, with or without ``data/source/`` in front."""
    relative = Path(path or ".")
    if relative.is_absolute() or ".." in relative.parts:
        raise DataError(
            f"data.path: {path!r} is outside {SOURCE}/.",
            f"Put the files under {SOURCE}/: DVC tracks that folder and reruns the stage when a file in it"
            " changes.",
        )
    folder = relative
    if relative.parts[:2] != SOURCE.parts:
        folder = SOURCE / relative
    if folder.is_dir():
        return folder

    # no folder: say what it is, or which folders there are
    problem = _not_a_folder(folder)
    if problem:
        raise DataError(
            f"data.path: {folder} {problem}; a folder is expected.",
            "Move it away, or name another folder.",
        )
    names = []
    if SOURCE.is_dir():
        for entry in SOURCE.iterdir():
            if entry.is_dir():
                names.append(entry.name)
    if names:
        hint = f"It can be: {listed(sorted(names))}."
    else:
        hint = f"{SOURCE}/ has no folders; set data.path to null to read {SOURCE}/ itself."
    raise DataError(f"data.path: {folder} is not a folder.", hint)
