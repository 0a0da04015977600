"""Data and weights of the user of which the working tree has another version than git names.

``git pull`` and ``git switch`` change the ``.dvc`` files, and not the data that these name: ``dvc checkout``
does that. Until then, ``dvc repro`` takes the data of the other commit for a change by the user, and writes
their hash into the ``.dvc`` file: rows that others have added are lost with the next commit. What git has
staged is what counts, so ``git add`` of a ``.dvc`` file makes any version the right one.

``python -m tuneline.project.source_versions`` refuses such data: ``make run`` starts it before ``dvc repro``,
and the first stages with ``--within-repro``: DVC has compared data and ``.dvc`` files by then.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml.error import YAMLError

from tuneline.core.errors import DataError
from tuneline.core.paths import BASE_SOURCE, SOURCE
from tuneline.core.terminal import visible
from tuneline.project.dvc import cached_file, load_yaml, present_hashes
from tuneline.project.repo import Commit, commits, git


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
        restore = f"dvc {'checkout' if self.is_cached else 'pull'} {self.file}"
        keep = f"git add {self.file}"
        if self.set_back:
            problem = (
                f"DVC has set {self.file} back to the data of commit {self.commit}, because git brings no"
                " data."
            )
            restore = f"git restore {self.file} && {restore}"
        else:
            whose = (
                f"that of commit {self.commit}" if self.commit else "not what git names, which was never here"
            )
            problem = f"{data} is {whose}, because git brings {self.file} and not its data."
            keep = f"dvc add {data} && {keep}"
        return DataError(problem, f"{restore}. Only if you mean the data that is here: {keep}")


def set_back(root: Path) -> list[OtherVersion]:
    """List the ``.dvc`` files in the working tree that name the data of another commit than git has staged.

    Only git is asked.
    """
    versions = []
    for file, required in _staged(root).items():
        named = _md5(_text(root / file))
        commit = _first_commit(root, file, named) if named and named != required else None
        if commit:
            versions.append(OtherVersion(file, commit, True, cached_file(root, required) is not None))
    return versions


def other_versions(root: Path) -> list[OtherVersion]:
    """List what has another version than git names: ``set_back``, and files and folders, which DVC hashes, if they have changed."""
    staged = _staged(root)
    unchanged = [file for file, required in staged.items() if _md5(_text(root / file)) == required]
    versions = set_back(root)
    for file, present in present_hashes(root, unchanged).items():
        if present == staged[file]:
            continue
        commit = _first_commit(root, file, present)
        is_cached = cached_file(root, staged[file]) is not None
        if commit or not is_cached:  # else it is a change by the user, of what was here
            versions.append(OtherVersion(file, commit, False, is_cached))
    return versions


def require_present(root: Path) -> None:
    """Refuse a working tree in which DVC has set a ``.dvc`` file back; a ``DataError`` says what to do."""
    for other in set_back(root):
        raise other.error()


def _staged(root: Path) -> Mapping[Path, str]:
    """Return the hash of the data of each ``.dvc`` file that git has staged; without imports, which DVC itself brings up to date."""
    listed = git(root, "ls-files", "-z", "--", f"{SOURCE}/*.dvc", f"{BASE_SOURCE}/*.dvc").split("\x00")
    texts = {Path(name): git(root, "show", f":{name}") for name in listed if name}
    hashes = {file: _md5(text) for file, text in texts.items()}
    return {file: md5 for file, md5 in hashes.items() if md5}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _md5(text: str) -> str | None:
    """Return the hash that the text of a ``.dvc`` file names; ``None`` if it is no such file, or an import."""
    try:
        content = load_yaml(text)
    except YAMLError:  # a merge left a conflict: DVC says so
        return None
    if not isinstance(content, dict) or "deps" in content or len(content.get("outs") or ()) != 1:
        return None
    md5 = content["outs"][0].get("md5")
    return None if md5 is None else str(md5)


def _first_commit(root: Path, file: Path, md5: str) -> Commit | None:
    """Return the first commit, of any branch, whose ``.dvc`` file names a hash; ``None`` if none does."""
    return next(iter(commits(root, "--all", "--reverse", f"-S{md5}", "--", str(file))), None)


if __name__ == "__main__":
    versions = set_back(Path()) if "--within-repro" in sys.argv else other_versions(Path())
    for other in versions:
        sys.exit(visible(f"{other.error()}"))
