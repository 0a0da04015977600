"""Files under ``data/source/`` as a source: one per split, named after it, a folder of batches, or both.

Files as the hub names them, ``train-00000-of-00012.parquet``, are read as batches. A batch is a file in the
folder ``SPLIT/``, such as ``train/2026-11-21-tickets-0f3a91c2.parquet``. The rows of a split are the rows of
its file, then the rows of its batches in the order of their names.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from stages.download.source import SourceSplit, source_splits
from tuneline.core.hashes import file_hash
from tuneline.core.records import write_record
from tuneline.core.sources import RemoteSource
from tuneline.core.tables import split_files
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
from tuneline.readers.tables import Input, open_table
from tuneline.runtime.atomic_files import replace_file
from tuneline.runtime.errors import DataError
from tuneline.runtime.terminal import progress
from tuneline.runtime.wording import listed

_MOVE = "Move it away, or put a dot in front of its name."


def find_files(folder: Path, split: str) -> tuple[Path | None, list[Path]]:
    """Return the file named after a split, if there is one, and its batches, in the order of their names.

    Raises:
        DataError: There is no file; several files have the split's name, or something else than a file has
            it; or its folder holds something else than batches.
    """
    named = [folder / f"{split}{ending}" for ending in ENDINGS]
    named = [path for path in named if os.path.lexists(path)]  # also a link to nothing
    shards = [path for path in split_files(folder, split) if path not in named]
    if len(named) + bool(shards) > 1:
        names = listed(path.name for path in (*named, *shards[:1]))
        raise DataError(f"{folder}: split {split!r} has several files: {names}.", "Keep one.")
    for path in named:
        problem = not_a_file(path)
        if problem:
            raise DataError(f"{path} {problem}.", f"{_MOVE} Batches are in a folder {split}/.")

    batches = shards + list(_batch_files(folder / split))
    if not named and not batches:
        there = listed(sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")))
        raise DataError(
            f"{folder} has no file for split {split!r}.",
            f"Expected {split}.csv, .tsv, .jsonl or .parquet, or a folder {split}/ with such files; there is"
            f" {there or 'no file'}. Rename a file, name another in data.splits.{split}, or divide one with"
            " data.split.",
        )
    return (named[0] if named else None), batches


def _batch_files(folder: Path) -> Iterator[Path]:
    """Yield the batches in the folder of a split, in the order of their names."""
    if not folder.is_dir():
        if os.path.lexists(folder) and (problem := not_a_file(folder)):
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
        elif not path.name.startswith("."):
            problem = not_a_file(path)
            if problem is None and not path.name.endswith(ENDINGS):
                problem = f"does not end in {', '.join(ENDINGS)}"
            if problem:
                raise DataError(f"{path}, in a folder of batches, {problem}.", _MOVE)
            yield path


def fetch(url: str, splits: Collection[str]) -> tuple[Path, dict[Path, tuple[str, RemoteSource]]]:
    """Copy the files of splits from a folder of an object store.

    Files that are whole already, and have not changed on the storage, are kept. If the storage cannot be
    reached, what was copied is kept for the next try.

    Returns:
        The folder of the copies, and of each file in it the URL and the record.
    """
    with reaching(shown(url)):
        files, path_there = file_system(url)
        base = files.unstrip_protocol(path_there).rstrip("/")
    folder = FETCHED / base.replace("://", "/")
    remote_files: dict[Path, RemoteFile] = {}
    for file in list_files(f"{base}/", depth=2):
        name = file.url.removeprefix(f"{base}/")
        parent, _, last = name.rpartition("/")
        split = parent or last.partition(".")[0]
        if split in splits and name.endswith(ENDINGS):
            remote_files[folder / name] = file
    if not remote_files:
        expected = " or ".join(f"{split}.csv, {split}.parquet, {split}/..." for split in splits)
        raise DataError(f"data.path: {shown(url)} has no file of these splits.", f"Expected {expected}")

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
    return folder, sources


def _copy(file: RemoteFile, path: Path) -> RemoteSource:
    """Copy a file, unless that was done. Its record, beside it, is written last."""
    record = RemoteSource.read_if_valid(_record(path))
    if record and path.is_file() and file.version is not None and record.version == file.version:
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
        """Find the files of the splits in ``data.splits``."""
        self.params = params.files
        names: dict[str, None] = {}  # splits of the source, in order, each once
        for split, spec in params.source_specs.items():
            names |= dict.fromkeys(source_splits(split, spec))

        # their folder: a copy, if the files are in a storage
        self.remote: dict[Path, tuple[str, RemoteSource]] = {}
        if params.path and is_url(params.path):
            refuse_address("data.path", params.path)
            self.folder, self.remote = fetch(params.path, names)
        else:
            self.folder = _folder(params.path)
        self.splits = {name: find_files(self.folder, name) for name in names}

    def read(self, split: str, columns: LabelledColumns) -> SourceSplit:
        """Open the files of one split."""
        file, batches = self.splits[split]
        paths = batches if file is None else [file, *batches]
        sources = [data_input(path, self.params) for path in paths]
        with open_table(sources[0]) as table:
            label_names = columns.declared(table)
        files = []
        for source in sources:
            bad = BadRows(source.name, source.unit, columns.policy)
            files.append((bad, _rows(source, columns, bad)))
        name = str(paths[0])
        if len(paths) > 1:
            name = f"{self.folder / split} ({len(paths)} files)"
        return SourceSplit(name, files, label_names)

    def provenance(self, rows: Mapping[str, int], /) -> dict[str, Any]:
        """Return the files that were read, and the rows of each batch; DVC tracks their content."""
        files = {}
        batches = {}
        for split, (file, batch_files) in self.splits.items():
            if file is not None:
                files[split] = file.as_posix()
            if batch_files:
                batches[split] = {path.as_posix(): rows.get(str(path), 0) for path in batch_files}
        remote = {url: record.model_dump(mode="json") for url, record in self.remote.values()}
        return {"files": files, "batches": batches or None, "remote": remote or None}


def _rows(source: Input, columns: LabelledColumns, bad: BadRows) -> Iterator[pa.RecordBatch]:
    with open_table(source) as table:
        yield from labelled_rows(table, columns, bad)


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
    if not folder.is_dir():
        names = []
        if SOURCE.is_dir():
            names = sorted(entry.name for entry in SOURCE.iterdir() if entry.is_dir())
        hint = f"{SOURCE}/ has these folders: {listed(names) or 'none'}; null reads {SOURCE}/ itself."
        raise DataError(f"data.path: {folder} is not a folder.", hint)
    return folder
