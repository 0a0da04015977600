"""Data and weights of the user whose version in the working tree is not the version that git names.

``git pull`` and ``git switch`` change the ``.dvc`` files, and not the data that these name: ``dvc checkout``
does that. Until then, ``dvc repro`` takes the data of the other commit for a change by the user, and writes
their hash into the ``.dvc`` file: rows that others have added are lost with the next commit. What git has
staged is what counts, so ``git add`` of a ``.dvc`` file makes any version the right one.

``python -m tuneline.repository.source_versions`` refuses such data: ``make run`` starts it before
``dvc repro``, and the first stages with ``--within-repro``: DVC has compared data and ``.dvc`` files by then.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml.error import YAMLError

from tuneline.paths import BASE_SOURCE, SOURCE
from tuneline.repository.dvc import cached_file, folder_hash, load_yaml, md5_of
from tuneline.repository.git import Commit, ForeignRepositoryError, commits, git
from tuneline.repository.programs import dvc_error, start_dvc
from tuneline.runtime.errors import DataError
from tuneline.runtime.terminal import visible


@dataclass(frozen=True)
class OtherVersion:
    """A file or folder whose content is of another commit.

    Attributes:
        file: Its ``.dvc`` file, relative to the root.
        commit: The first commit with this content; ``None`` if no commit has it, but the cache lacks what git
            names.
        set_back: True if the ``.dvc`` file names this content by now, False if it names what git has.
        is_cached: True if DVC's cache has what git names.
    """

    file: Path
    commit: Commit | None
    set_back: bool
    is_cached: bool

    def error(self) -> DataError:
        """Return the error, with what to do."""
        data = self.file.with_suffix("")
        restore = f"dvc pull {self.file}"
        if self.is_cached:
            restore = f"dvc checkout {self.file}"
        keep = f"git add {self.file}"

        if self.set_back:
            restore = f"git restore {self.file} && {restore}"
            problem = (
                f"DVC has set {self.file} back to the data of commit {self.commit}, because git brings no"
                " data."
            )
        else:
            keep = f"dvc add {data} && {keep}"
            version = "not what git names, which was never here"
            if self.commit:
                version = f"that of commit {self.commit}"
            problem = f"{data} is {version}, because git brings {self.file} and not its data."
        return DataError(problem, f"{restore}. Only if you mean the data that is here: {keep}")


def set_back(root: Path) -> list[OtherVersion]:
    """List the ``.dvc`` files in the working tree that name the data of another commit than git has staged.

    Only git is asked.
    """
    versions = []
    for file, required in _staged(root).items():
        md5 = _md5(_text(root / file))
        if md5 is None or md5 == required:
            continue
        commit = _first_commit(root, file, md5)
        if commit is None:  # the user's own change
            continue
        is_cached = cached_file(root, required) is not None
        versions.append(OtherVersion(file, commit, set_back=True, is_cached=is_cached))
    return versions


def other_versions(root: Path) -> list[OtherVersion]:
    """List what has another version than git names.

    This is what ``set_back`` lists, and the files and folders whose data differ from their ``.dvc`` file. DVC
    hashes them, if they have changed.
    """
    staged = _staged(root)
    # A ``.dvc`` file that has changed itself is in ``set_back``, or the user changed it on purpose.
    unchanged = []
    for file, required in staged.items():
        if _md5(_text(root / file)) == required:
            unchanged.append(file)

    versions = set_back(root)
    for file in _changed(root, unchanged):
        commit = _first_commit(root, file, _present_hash(root / file.with_suffix("")))
        is_cached = cached_file(root, staged[file]) is not None
        if commit or not is_cached:  # else it is a change by the user, of what was here
            versions.append(OtherVersion(file, commit, set_back=False, is_cached=is_cached))
    return versions


def _changed(root: Path, files: Sequence[Path]) -> list[Path]:
    """Return the ``.dvc`` files whose data are in the working tree, and are not those that they name."""
    present = [file for file in files if (root / file.with_suffix("")).exists()]
    if not present:
        return []
    done = start_dvc(root, "status", "--json", "--no-updates", *map(str, present))
    if done.returncode:
        raise DataError(f"DVC cannot compare the data: {dvc_error(done.stderr)}")
    changed = json.loads(done.stdout)
    return [file for file in present if file.as_posix() in changed]


def _present_hash(data: Path) -> str:
    if data.is_dir():
        return folder_hash(data)
    return md5_of(data)


def require_present(root: Path) -> None:
    """Refuse a working tree in which DVC has set a ``.dvc`` file back; a ``DataError`` says what to do."""
    for version in set_back(root):
        raise version.error()


def _staged(root: Path) -> Mapping[Path, str]:
    """Return the hash of the data of each ``.dvc`` file that git has staged.

    Imports are left out: DVC itself brings them up to date.
    """
    names = git(root, "ls-files", "-z", "--", f"{SOURCE}/*.dvc", f"{BASE_SOURCE}/*.dvc").split("\x00")
    hashes = {}
    for name in names:
        if not name:  # git printed nothing, or a zero after the last name
            continue
        md5 = _md5(git(root, "show", f":{name}"))
        if md5:
            hashes[Path(name)] = md5
    return hashes


def _text(path: Path) -> str:
    if not path.is_file():
        return ""
    return path.read_text(encoding="utf-8", errors="replace")


def _md5(text: str) -> str | None:
    """Return the hash that the text of a ``.dvc`` file names; ``None`` for another text, or an import."""
    try:
        content = load_yaml(text)
    except YAMLError:  # a merge left a conflict: DVC says so
        return None
    if not isinstance(content, dict) or "deps" in content:
        return None
    outs = content.get("outs") or []
    if len(outs) != 1:
        return None
    md5 = outs[0].get("md5")
    if md5 is None:
        return None
    return str(md5)


def _first_commit(root: Path, file: Path, md5: str) -> Commit | None:
    """Return the first commit, of any branch, whose ``.dvc`` file names a hash; ``None`` if none does."""
    # git's -S lists commits that change how often the hash occurs in the file; the first of them added it.
    changing = commits(root, "--all", "--reverse", f"-S{md5}", "--", str(file))
    return changing[0] if changing else None


if __name__ == "__main__":
    try:
        if "--within-repro" in sys.argv:
            refused = set_back(Path())
        else:
            refused = other_versions(Path())
    except ForeignRepositoryError as foreign:
        sys.exit(visible(f"{foreign}"))
    for version in refused:
        sys.exit(visible(f"{version.error()}"))
