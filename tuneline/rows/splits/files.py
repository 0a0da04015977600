"""Files under ``data/source/`` as a source: one per split, named after it, a folder of batches, or both.

Files as the hub names them, ``train-00000-of-00012.parquet``, are read as batches. A batch is a file in the
folder ``SPLIT/``, such as ``train/2026-11-21-tickets-0f3a91c2.parquet``. The rows of a split are the rows of
its file, then the rows of its batches in the order of their names.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tuneline.core.params.data import DataParams
from tuneline.core.paths import SOURCE
from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.terminal import listed
from tuneline.core.stage.tables import split_files
from tuneline.rows.reading.formats import ENDINGS, data_input
from tuneline.rows.reading.labelled import LabelledColumns, labelled_rows
from tuneline.rows.reading.rows import BadRows
from tuneline.rows.reading.tables import Input, open_table
from tuneline.rows.splits.source import SourceSplit


def find_files(folder: Path, split: str) -> tuple[Path | None, list[Path]]:
    """Return the file named after a split, if there is one, and its batches, in the order of their names.

    Raises:
        DataError: There is no file, several files have the split's name, or its folder holds something else
            than batches.
    """
    named = []
    for ending in ENDINGS:
        path = folder / f"{split}{ending}"
        if os.path.lexists(path):  # also a link to nothing
            named.append(path)
    shards = [path for path in split_files(folder, split) if path not in named]
    if len(named) + bool(shards) > 1:
        names = listed(path.name for path in named + shards[:1])
        raise DataError(f"{folder}: split {split!r} has several files: {names}.", "Keep one.")

    batches = shards
    if (folder / split).is_dir():
        batches = shards + _batch_files(folder / split)
    if not named and not batches:
        there = listed(sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")))
        raise DataError(
            f"{folder} has no file for split {split!r}.",
            f"Expected {split}.csv, .tsv, .jsonl or .parquet, or a folder {split}/ with such files; there is"
            f" {there or 'no file'}. Rename a file, name another in data.splits.{split}, or divide one with"
            " data.split.",
        )
    if named:
        return named[0], batches
    return None, batches


def _batch_files(folder: Path) -> list[Path]:
    """Return the batches in the folder of a split, in the order of their names."""
    batches = []
    for path in sorted(folder.iterdir()):
        if path.suffix == ".dvc":
            data = path.with_suffix("")
            if not data.exists():
                raise DataError(
                    f"{data} is missing, but {path.name} names it.",
                    "Get it with `dvc checkout` or `dvc pull`.",
                )
        elif not path.name.startswith("."):
            if not path.name.endswith(ENDINGS):
                raise DataError(
                    f"{path}, in a folder of batches, does not end in {', '.join(ENDINGS)}.",
                    "Move it away, or put a dot in front of its name.",
                )
            batches.append(path)
    return batches


class Files:
    """A folder with the files of each split.

    Such as ``train.csv``, ``validation.jsonl.gz``, batches in ``train/``, in any combination.
    """

    def __init__(self, params: DataParams) -> None:
        """Find the files of the splits in ``data.splits``."""
        self.params = params.files
        self.folder = _folder(params.path)
        self.splits = {name: find_files(self.folder, name) for name in params.source_specs.values()}

    def read(self, split: str, columns: LabelledColumns) -> SourceSplit:
        """Open the files of one split."""
        file, batches = self.splits[split]
        paths = batches
        if file is not None:
            paths = [file, *batches]
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
        return {"files": files, "batches": batches or None}


def _rows(source: Input, columns: LabelledColumns, bad: BadRows) -> Iterator[pa.RecordBatch]:
    with open_table(source) as table:
        yield from labelled_rows(table, columns, bad)


def source_folder(path: str | None) -> Path:
    """Return the folder that ``data.path`` names, with or without ``data/source/`` in front."""
    folder = Path(path or ".")
    if folder.parts[:2] == SOURCE.parts:
        return folder
    return SOURCE / folder


def _folder(path: str | None) -> Path:
    """Return the folder that ``data.path`` names; refuse one that is elsewhere, or missing."""
    folder = Path(path or ".")
    if folder.is_absolute() or ".." in folder.parts:
        raise DataError(
            f"data.path: {path!r} is outside {SOURCE}/.",
            f"Put the files under {SOURCE}/: DVC tracks that folder and reruns the stage when a file in it"
            " changes.",
        )
    folder = source_folder(path)
    if not folder.is_dir():
        raise DataError(
            f"data.path: {folder} is not a folder.",
            f"Name a folder in {SOURCE}/; null reads {SOURCE}/ itself. `dvc import-url s3://...` brings files"
            " of a storage.",
        )
    return folder
