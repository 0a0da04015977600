"""Files of ``data.path: s3://bucket/folder``, which are copied to ``data/fetched/`` and read there like those of ``data/source/``."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneline.errors import DataError
from tuneline.files import replace_file
from tuneline.paths import FETCHED
from tuneline.readers.listing import list_files
from tuneline.readers.rows import ENDINGS
from tuneline.readers.urls import RemoteFile, file_system, reaching, sha256, shown
from tuneline.records.source import RemoteSource
from tuneline.terminal import progress


@dataclass(frozen=True)
class RemoteFolder:
    """The copy of a folder of a storage.

    Attributes:
        folder: The copy.
        sources: What each file in it is a copy of: URL, and record of the file.
    """

    folder: Path
    sources: Mapping[Path, tuple[str, RemoteSource]]

    @classmethod
    def fetch(cls, url: str, splits: Collection[str]) -> "RemoteFolder":
        """Copy the files of splits. Those that are whole already, and have not changed on the storage, are kept.

        Raises:
            DataError: There is none.
            UnreadableError: The storage cannot be reached. What was copied is kept for the next try.
        """
        with reaching(shown(url)):
            files, path = file_system(url)
            base = files.unstrip_protocol(path).rstrip("/")
        scheme, _, place = base.partition("://")
        if ".." in Path(place).parts:
            raise DataError(f"data.path: {shown(url)} contains '..'.", "Write the address without it.")
        folder = FETCHED / scheme / place.lstrip("/")
        wanted = {folder / name: file for name, file in _files_of_splits(base, splits).items()}
        kept = {*wanted, *map(_record, wanted)}
        for path in [path for path in folder.rglob("*") if path.is_file() and path not in kept and path.suffix != ".partial"]:
            path.unlink(missing_ok=True)  # another process, whose partial files stay, may do the same
        with progress(f"download: fetching {shown(url)}", sum(file.size for file in wanted.values()), unit="") as step:
            sources = {}
            for path, file in wanted.items():
                step.detail = file.name
                sources[path] = str(file), _copy(file, path)
                step.advance(file.size)
        return cls(folder, sources)

    def provenance(self, paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
        """Return the records of some of the copies, by URL, as JSON."""
        return {url: record.model_dump(mode="json") for url, record in (self.sources[path] for path in paths)}


def _files_of_splits(base: str, splits: Collection[str]) -> dict[str, RemoteFile]:
    """Return the files of splits in a folder of a storage, by their path in it."""
    listed = list_files(f"{base}/", depth=2)
    if [file.url for file in listed] == [base]:
        raise DataError(f"data.path: {shown(base)} is a file; a folder is expected.", f"Write {shown(base.rpartition('/')[0])}.")
    found = {file.url.removeprefix(f"{base}/"): file for file in listed if not file.name.startswith(".")}
    found = {name: file for name, file in found.items() if _split_of(name) in splits}
    if not found:
        expected = f"Expected {' or '.join(f'{split}.csv, {split}.parquet, {split}/...' for split in splits)}"
        raise DataError(f"data.path: {shown(base)} has no file of these splits.", expected)
    return found


def _split_of(name: str) -> str | None:
    """Return the split of a file, by its path in the folder; ``None`` for other files."""
    folder, _, file = name.rpartition("/")
    return folder or next((file.removesuffix(ending) for ending in ENDINGS if file.endswith(ending)), None)


def _copy(file: RemoteFile, path: Path) -> RemoteSource:
    """Copy a file, unless that was done. Its record, beside it, is written last."""
    record = RemoteSource.read_if_valid(_record(path))
    if record and path.is_file() and file.version is not None and (record.size, record.version) == (file.size, file.version):
        return record
    with replace_file(path) as partial:
        file.fetch(partial)
    record = RemoteSource(size=file.size, version=file.version, sha256=sha256(path))
    record.write(_record(path))
    return record


def _record(path: Path) -> Path:
    return path.with_name(f".{path.name}.json")
