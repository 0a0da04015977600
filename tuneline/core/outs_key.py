"""The key of a stage's outs: it tells the outs of one run from others, without reading the large ones."""

import hashlib
from pathlib import Path

from tuneline.core.hashes import file_hash
from tuneline.core.yaml_files import read_yaml

SMALL_FILE = 65_536
"""Bytes up to which the content of an out counts for its key; of a larger file, name and size do."""


def outs_key(stage: str, root: Path) -> str | None:
    """Return a key of the present outs and metrics of a stage; ``None`` if ``dvc.yaml`` has no such stage.

    It tells runs apart whose weights have the same size, because metrics, curves and records are small.
    """
    path = root / "dvc.yaml"
    if not path.exists():
        return None
    block = read_yaml(path)["stages"].get(stage)
    if block is None:
        return None

    files = []
    for out in (*block.get("outs", ()), *block.get("metrics", ())):
        # An out with options is a mapping from its path to them.
        place = root / (next(iter(out)) if isinstance(out, dict) else out)
        files += [file for file in (place, *place.rglob("*")) if file.is_file()]

    digest = hashlib.sha256()
    for file in sorted(files):
        size = file.stat().st_size
        content = file_hash(file) if size <= SMALL_FILE else ""
        digest.update(f"{file.relative_to(root).as_posix()} {size} {content}\n".encode())
    return digest.hexdigest()
