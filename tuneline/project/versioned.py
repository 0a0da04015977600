"""Data and weights of the user: which of them neither git nor DVC has."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuneline.core.paths import BASE_SOURCE, SOURCE
from tuneline.params.model import is_folder
from tuneline.project.params_file import get_value
from tuneline.project.repo import git


def unversioned(root: Path) -> list[Path]:
    """List the files and folders in ``data/source`` and ``models/source`` of which neither git nor DVC has all; none without DVC."""
    if not (root / ".dvc").is_dir():
        return []
    entries = [path.relative_to(root) for folder in (SOURCE, BASE_SOURCE) for path in sorted((root / folder).glob("*"))]
    return [path for path in entries if path.suffix != ".dvc" and not _is_versioned(root, path)]


def _is_versioned(root: Path, path: Path) -> bool:
    """Return True if git has a path or will have it, as it does not ignore it, except for what ``.dvc`` files list."""
    ignored = git(root, "ls-files", "--others", "--ignored", "--exclude-standard", "-z", "--", str(path)).split("\x00")
    return all(file_of_dvc(root, Path(one)) for one in ignored if one)


def file_of_dvc(root: Path, path: Path) -> Path | None:
    """Return what DVC tracks that is a path or has it: the path itself or a folder with a ``.dvc`` file; ``None`` if nothing does."""
    return next((one for one in (path, *path.parents) if one.name and (root / f"{one}.dvc").is_file()), None)


def named(params: Mapping[str, Any]) -> list[Path]:
    """Return the files and folders of the user that parameters name: data, and weights that are not of the hub."""
    models = (get_value(params, key) for key in ("model.checkpoint", "tokenize.tokenizer"))
    paths = [Path(name) for name in models if isinstance(name, str) and is_folder(name)]
    if get_value(params, "data.source") == "files":
        paths.append(SOURCE / str(get_value(params, "data.path") or ""))
    return paths


def missing(root: Path, params: Mapping[str, Any]) -> list[Path]:
    """Return of what parameters name the files and folders that neither git nor DVC has."""
    needed = named(params)
    return [path for path in unversioned(root) if any(path == one or path in one.parents or one in path.parents for one in needed)]
