"""The code of a stage: the Python and JSON files that ``dvc.yaml`` names as its dependencies, as one hash."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tuneline.core.hashes import file_hash
from tuneline.core.yaml_files import read_yaml
from tuneline.runtime.errors import StageError

ROOT = Path(__file__).parents[2]
"""Root of the project that this code is part of."""
PIPELINE_CODE = ("stages", "tuneline")
"""Packages that contain the code of the pipeline."""
CODE = ("project", *PIPELINE_CODE)
"""The same, and the user's losses and metrics."""


def code_hash(root: Path, paths: Sequence[str]) -> str:
    """Return one SHA-256 over the names and bytes of Python and JSON files, also of those inside folders.

    Raises:
        StageError: A path does not exist.
    """
    files: set[Path] = set()
    for path in paths:
        place = root / path
        if not place.exists():
            raise StageError(
                f"dvc.yaml lists {path} in deps, but it does not exist.", "Correct the path, or remove it."
            )
        if place.is_file():
            files.add(place)
        files.update(file for file in place.rglob("*") if file.suffix in {".py", ".json"})
    lines = [f"{file_hash(file)}  {file.relative_to(root).as_posix()}\n" for file in sorted(files)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def stage_code(stage: str, root: Path = ROOT) -> str:
    """Return one SHA-256 over the code that a stage depends on in ``dvc.yaml``, without the user's functions.

    What an interrupted stage has done is continued only by the same code: the code that would make DVC run
    the stage again.
    """
    deps = read_yaml(root / "dvc.yaml")["stages"][stage]["deps"]
    return code_hash(root, [dep for dep in deps if Path(dep).parts[0] in PIPELINE_CODE])
