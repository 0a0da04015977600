"""Data and weights of the user whose version in the working tree is not the version that git names.

``git pull`` and ``git switch`` change the ``.dvc`` files, and not the data that these name: ``dvc checkout``
does that. Until then, ``dvc repro`` takes the data of the other commit for a change by the user, and writes
their hash into the ``.dvc`` file: rows that others have added are lost with the next commit. What git has
staged is what counts, so ``git add`` of a ``.dvc`` file makes any version the right one.

``python -m tuneline.core.repository.source_versions`` refuses such data: the first stages start it, when DVC
has set the ``.dvc`` file back.
"""

import sys
from pathlib import Path

from ruamel.yaml.error import YAMLError

from tuneline.core.paths import BASE_SOURCE, SOURCE
from tuneline.core.repository.dvc import cached_file, load_yaml
from tuneline.core.repository.git import ForeignRepositoryError, commits, git
from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.terminal import visible


def set_back(root: Path) -> list[DataError]:
    """Return an error for each ``.dvc`` file that names the data of another commit than git has staged.

    Only git is asked. Imports are left out: DVC itself brings them up to date.
    """
    errors = []
    names = git(root, "ls-files", "-z", "--", f"{SOURCE}/*.dvc", f"{BASE_SOURCE}/*.dvc").split("\x00")
    for file in filter(None, names):
        required = _md5(git(root, "show", f":{file}"))
        present = None
        if (root / file).is_file():
            present = _md5((root / file).read_text(encoding="utf-8", errors="replace"))
        if required is None or present is None or present == required:
            continue
        # git's -S lists commits that change how often a hash occurs in the file; the first of them added it.
        changing = commits(root, "--all", "--reverse", f"-S{present}", "--", file)
        if not changing:  # the user's own change
            continue
        restore = f"dvc pull {file}"
        if cached_file(root, required) is not None:
            restore = f"dvc checkout {file}"
        errors.append(
            DataError(
                f"DVC has set {file} back to the data of commit {changing[0]}, because git brings no data.",
                f"git restore {file} && {restore}. Only if you mean the data that is here: git add {file}",
            )
        )
    return errors


def require_present(root: Path) -> None:
    """Refuse a working tree in which DVC has set a ``.dvc`` file back; a ``DataError`` says what to do."""
    for error in set_back(root):
        raise error


def _md5(text: str) -> str | None:
    """Return the hash that the text of a ``.dvc`` file names; ``None`` for another text, or an import."""
    try:
        content = load_yaml(text)
    except YAMLError:  # a merge left a conflict: DVC says so
        return None
    if not isinstance(content, dict) or "deps" in content:
        return None
    outs = content.get("outs") or []
    if len(outs) != 1 or "md5" not in outs[0]:
        return None
    return str(outs[0]["md5"])


if __name__ == "__main__":
    try:
        require_present(Path())
    except (DataError, ForeignRepositoryError) as error:
        sys.exit(visible(f"{error}"))
