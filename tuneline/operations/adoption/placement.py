"""Which file of the user has the rows of each split, where its copy goes, and what DVC keeps.

The user's files are only read, whatever folders and links they are in. A copy never overwrites a copy that
differs without an answer to a question, and no file is deleted.
"""

import filecmp
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ruamel.yaml import YAML

from tuneline.core.paths import SOURCE, SPLITS
from tuneline.core.repository.git import file_of_dvc, missing, named
from tuneline.core.repository.programs import run_dvc
from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.files import replace_file
from tuneline.core.runtime.terminal import say
from tuneline.rows.reading.tables import Format

ALIASES = {
    "train": {"train", "training"},
    "validation": {"validation", "valid", "val", "dev"},
    "test": {"test"},
}
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


def by_split(paths: Sequence[Path]) -> dict[str, Path]:
    """Return the file of each split.

    A single file is train. Several files have the split in their names, and one of them is train.
    """
    if len(paths) == 1:
        return {"train": paths[0]}
    hint = "Name the files after the splits: train.csv, validation.csv, test.csv."
    files: dict[str, Path] = {}
    for path in paths:
        words = re.split(r"[^a-z]+", path.name.lower())
        splits = [split for split, names in ALIASES.items() if not names.isdisjoint(words)]
        if len(splits) != 1:
            raise DataError(f"{path}: the split is not clear from the name.", hint)
        if splits[0] in files:
            raise DataError(f"{path}: belongs to the same split as another file.", hint)
        files[splits[0]] = path
    if "train" not in files:
        raise DataError("No file is named train.", hint)
    # in the order of the splits, not of the arguments
    return {split: files[split] for split in SPLITS if split in files}


def place(
    files: Mapping[str, Path], originals: Sequence[Path], file_format: Format, name: str | None
) -> Placement:
    """Return the placement of the file of each split that has one.

    Files that are in ``data/source/`` stay in place if no name is given.

    Raises:
        DataError: The name is not a plain folder name, or a copy would replace a file of the user, one of
            ``originals``.
    """
    suffix = file_format.suffixes[0]
    if files["train"].name.lower().endswith(".gz"):
        suffix += ".gz"
    placement = None if name else _in_place(files, suffix)
    return placement or _copies(files, originals, suffix, name)


def _copies(files: Mapping[str, Path], originals: Sequence[Path], suffix: str, name: str | None) -> Placement:
    """Return the placement of copies in a folder; a copy that is there already is not written again."""
    folder = SOURCE / folder_name(name, list(files.values()))
    # real paths, whatever links lead to them
    folders = {path.parent.resolve() for path in originals}
    specs = {}
    copies = {}
    for split, path in files.items():
        specs[split] = ALL if len(files) == 1 else split
        target = folder / f"{specs[split]}{suffix}"
        if target.is_file() and filecmp.cmp(path, target, shallow=False):
            continue
        real = target.resolve()
        is_own = real != SOURCE.resolve() / target.relative_to(SOURCE)
        if target.exists():
            # The same file can have another name: hard links.
            is_own |= real.parent in folders or any(target.samefile(original) for original in originals)
        if is_own:
            raise DataError(
                f"{target} is among your own files, or behind a link to {real}: these are only read. The copy"
                f" of {path} would replace it.",
                "Choose another folder for the copies: --name NAME",
            )
        copies[target] = path
    return Placement(folder, specs, suffix, copies)


def _in_place(files: Mapping[str, Path], suffix: str) -> Placement | None:
    """Return the placement of files in one folder of ``data/source/``, or ``None`` if they are elsewhere."""
    folders = {path.parent.resolve() for path in files.values()}
    if len(folders) != 1:
        return None
    folder = folders.pop()
    if not folder.is_relative_to(SOURCE.resolve()):
        return None

    # names that data.splits can hold
    stems = {}
    for split, path in files.items():
        stem = path.name.removesuffix(suffix)
        if path.name != stem + suffix or not re.fullmatch(r"\w+(\.\w+)*", stem, re.ASCII):
            return None
        stems[split] = stem
    return Placement(SOURCE / folder.relative_to(SOURCE.resolve()), stems, suffix)


def folder_name(name: str | None, paths: Sequence[Path]) -> str:
    """Return the user's name of the folder, else that of a single file, else that of the files' folder."""
    if name is None:
        stem = paths[0].name.split(".")[0] if len(paths) == 1 else paths[0].resolve().parent.name
        return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-") or "mine"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise DataError(f"--name {name!r} is not a folder name.", "Use letters, digits, '_', '-' and '.'.")
    return name


def paths_for_dvc(placement: Placement, content: str) -> list[Path]:
    """Return the files and folders to add to DVC, none in a project without DVC.

    These are the ones that ``content``, the new text of ``params.yaml``, names and that git and DVC lack or
    that do not exist yet, and the ones in DVC that a copy changes.
    """
    if not Path(".dvc").is_dir():
        return []
    values = YAML(typ="safe", pure=True).load(content)
    paths = missing(Path(), values)
    paths += [path for path in named(values) if not path.exists()]
    for target in placement.copies:
        tracked = file_of_dvc(Path(), target)
        if tracked:
            paths.append(tracked)
    return list(dict.fromkeys(paths))


def add_to_dvc(paths: Sequence[Path]) -> None:
    """Run ``dvc add``, or say how to do it."""
    if not paths:
        return
    words = list(map(str, paths))
    reason = run_dvc(Path(), "add", *words)
    if reason:
        say(
            "! dvc add failed, so experiments and other machines lack the data:"
            f" {reason}\n  dvc add {' '.join(words)}",
            error=True,
        )
