"""Where new rows go: the split of the source that gets them, the splits that must not, and the folder or file that DVC tracks."""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flows.ingestion.reading import ending_of
from flows.runs.repository import GitError, Repository
from tuneline.errors import DataError, ParamsError
from tuneline.params.data import DataParams
from tuneline.params.loading import read_yaml
from tuneline.paths import SOURCE
from tuneline.readers.urls import is_url, shown

_PLAIN = re.compile(r"[\w.-]+")


@dataclass(frozen=True)
class Layout:
    """The files of ``data.source: files``, relative to the root of a checkout.

    Attributes:
        folder: ``data/source/PATH``.
        split: Split of the source that gets new rows: ``data.splits.train``.
        held: The other splits of the source: rows that are there are not for training.
    """

    folder: Path
    split: str
    held: tuple[str, ...]

    @classmethod
    def of(cls, data: DataParams) -> "Layout":
        """Return the layout for the parameters of the pipeline.

        Raises:
            ParamsError: New rows could change the split of other rows.
        """
        if data.source != "files":
            hint = "Set up your own data with `tuneline init FILE`; a source with hub: true follows a data set of the hub."
            raise ParamsError(f"data.source is {data.source!r}: new rows are added to files under {SOURCE}/.", hint)
        if data.split is not None and data.split.stratify:
            hint = "Set it to false: the split of a row then follows from the row alone (docs/your-data.md), once and for all."
            raise ParamsError("data.split.stratify is true: added rows would move a few others to another split.", hint)
        specs = data.source_specs
        train = specs.pop("train")
        if not _PLAIN.fullmatch(train):
            raise ParamsError(
                f"data.splits.train is {train!r}: new rows need one split of the source.", "Name one, without slices or sums."
            )
        held = tuple(dict.fromkeys(name for spec in specs.values() for name in re.findall(r"([\w.-]+)(?:\[[^\]]*\])?", spec)))
        if train in held:
            hint = "Divide it with data.split (stratify: false) instead of slices: the split of a row then follows from the row alone."
            raise ParamsError(f"data.splits: {train!r} gives more than one split, so new rows would move others.", hint)
        if is_url(data.path or ""):
            hint = "Put new files there yourself, and run `dvc repro -f download`; or set data.path to a folder of this repository."
            raise ParamsError(f"data.path is {shown(str(data.path))}: new rows are added to files under {SOURCE}/.", hint)
        given = Path(data.path or ".")
        return cls(given if given.parts[:2] == SOURCE.parts else SOURCE / given, train, held)

    @property
    def batches(self) -> Path:
        """Folder of the batch files."""
        return self.folder / self.split

    def files(self, root: Path, split: str) -> list[Path]:
        """List the files of a split of the source: the one that is named after it, then its batches."""
        single = [path for path in (root / self.folder).glob(f"{split}.*") if ending_of(path.name) == path.name.removeprefix(split)]
        return sorted(single) + sorted(path for path in (root / self.folder / split).glob("[!.]*") if ending_of(path.name))

    def tracked(self, root: Path, repository: Repository) -> Path:
        """Return the folder to ``dvc add``: the one that is tracked already, else the smallest whose ``.dvc`` file git does not ignore.

        Raises:
            DataError: Rows cannot be added to what is tracked.
        """
        candidates = [path for path in (self.batches, *self.batches.parents) if path != SOURCE and SOURCE in path.parents]
        tracked = next((path for path in candidates if (root / f"{path}.dvc").exists()), None)
        if tracked is not None and "deps" in read_yaml(root / f"{tracked}.dvc"):
            hint = "Import the files that change by a source of flow ingest, or track the folder with `dvc add`."
            raise DataError(f"{tracked}.dvc is an import of DVC, which the next `dvc update` would replace.", hint)
        if tracked is None and (repository.root / self.folder).is_dir() and not (root / self.folder).is_dir():
            hint = f"`dvc add {candidates[-1]}` and commit {candidates[-1]}.dvc."
            raise DataError(f"{self.folder} is in no commit: a run would not have the rows that are there.", hint)
        return tracked or next((path for path in candidates if not _ignored(root, repository, path)), candidates[-1])


def _ignored(root: Path, repository: Repository, path: Path) -> bool:
    with suppress(GitError):  # exit code 1: it is not
        repository.git("check-ignore", "--quiet", f"{path}.dvc", cwd=root)
        return True
    return False
