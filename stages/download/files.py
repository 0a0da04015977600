"""Files under ``data/source/`` as a source: one file per split, named after it."""

from pathlib import Path
from typing import Any

from stages.download.columnar import read_parquet
from stages.download.columns import listed
from stages.download.delimited import Dialect, read_delimited
from stages.download.jsonl import read_jsonl
from stages.download.reading import Reading, Wanted
from tuneline.errors import DataError
from tuneline.params.data import FilesParams
from tuneline.paths import SOURCE

KINDS = (".csv", ".tsv", ".jsonl", ".parquet")
ENDINGS = tuple(kind + packed for kind in KINDS for packed in ("", ".gz"))


class Files:
    """A folder with one file per split: ``train.csv``, ``validation.jsonl.gz``, ``test.parquet``, in any mixture."""

    def __init__(self, path: str | None, params: FilesParams) -> None:
        """Finds the folder.

        Raises:
            DataError: It is not there, or not under ``data/source/``.
        """
        self.folder = _folder(path)
        self.params = params
        self.read_from: dict[str, str] = {}

    def read(self, split: str, wanted: Wanted) -> Reading:
        """Opens the file of one split.

        Raises:
            DataError: There is none, or more than one; or what is in it is of no use.
        """
        path = self._file(split)
        self.read_from[split] = path.as_posix()
        kind = path.name.removeprefix(split).removesuffix(".gz")
        if kind == ".parquet":
            batches, names = read_parquet(path, wanted)
            return Reading(str(path), "row", batches, names)
        if kind == ".jsonl":
            return Reading(str(path), "line", read_jsonl(path, self.params.encoding, wanted))
        dialect = Dialect.of(self.params, tabs=kind == ".tsv")
        return Reading(str(path), "line", read_delimited(path, dialect, wanted))

    def _file(self, split: str) -> Path:
        found = [path for ending in ENDINGS if (path := self.folder / f"{split}{ending}").is_file()]
        if len(found) > 1:
            raise DataError(f"{self.folder}: split {split!r} has {len(found)} files: {listed(path.name for path in found)}.", "Keep one.")
        if found:
            return found[0]
        there = sorted(path.name for path in self.folder.iterdir() if path.is_file() and not path.name.startswith("."))
        raise DataError(f"{self.folder} has no file for split {split!r}.", self._what_to_do(split, there))

    def _what_to_do(self, split: str, there: list[str]) -> str:
        wanted = f"{split}.csv, .tsv, .jsonl or .parquet, plain or .gz, is wanted"
        other = next((name for name in there if name.partition(".")[0] == split), None)
        if other is not None:
            return f"{wanted}; {other} ends in none of these."
        return f"{wanted}; there {'is ' + listed(there) if there else 'is nothing'}. Rename a file, or name another in data.splits.{split}."

    def provenance(self) -> dict[str, Any]:
        """The files that were read; their content is what DVC tracks."""
        return {"files": self.read_from}


def _folder(path: str | None) -> Path:
    given = Path(path or ".")
    folder = given if given.parts[:2] == SOURCE.parts else SOURCE / given
    if given.is_absolute() or ".." in given.parts:
        raise DataError(
            f"data.path: {path!r} lies outside {SOURCE}/.",
            f"Put the files under {SOURCE}/: it is what DVC watches, so that changed files run the stage again.",
        )
    if not folder.is_dir():
        there = sorted(entry.name for entry in SOURCE.iterdir() if entry.is_dir()) if SOURCE.is_dir() else []
        hint = f"Folders there are: {listed(there)}." if there else f"{SOURCE}/ has no folders; leave data.path null for itself."
        raise DataError(f"data.path: {folder} is no folder.", hint)
    return folder
