"""The version that an answer names: which commit made it, and where its record is."""

from collections.abc import Iterator
from pathlib import Path

from tuneline.onnx.usage import EXPORT_RECORD, UsageRecord, content_version
from tuneline.paths import ONNX
from tuneline.repository.dvc import cached_out
from tuneline.repository.git import lock_at, registries
from tuneline.runtime.errors import StageError


def registered_commit(root: Path, name: str) -> str | None:
    """Return the commit of a version or stage of the artifact ``onnx``; ``None`` if there is none."""
    tags = registries(root).get(ONNX.name)
    if tags is None:
        return None
    staged = tags.in_stage(name)
    for version in tags.versions:
        if version.name == name or version == staged:
            return version.commit
    return None


def find_version(root: Path, name: str) -> tuple[str, Path]:
    """Find the model that answers name as their version.

    Args:
        root: The project.
        name: A version or stage of the registry, or the start of a hash as models have it that are none.

    Returns:
        What it is, in a line, and its ``export.json``.

    Raises:
        StageError: No model has that name here, or DVC's cache lacks its record.
    """
    commit = registered_commit(root, name)
    if commit is not None:
        record = _record_at(root, commit)
        if record is None:
            raise StageError(
                f"{name}: DVC's cache does not have {ONNX} of {commit[:12]}.",
                f"Run `dvc fetch --all-commits {ONNX}`, if a DVC remote has it.",
            )
        return f"{name}, commit {commit[:12]}", record

    for title, path in _models(root):
        usage = UsageRecord.read(path)
        for precision, model in usage.models.items():
            if content_version(usage, model) == name:
                return f"{title}, {precision}", path
    raise StageError(
        f"{name}: no folder, no version or stage of the registry, and no model in {ONNX} or DVC's cache has"
        " that version.",
        "`git fetch --tags` and `tuneline versions --all` list what is registered.",
    )


def _models(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the model of the working tree, and those of the registry that the cache has."""
    own = root / ONNX / EXPORT_RECORD
    if own.exists():
        yield f"the model in {ONNX}", own
    tags = registries(root).get(ONNX.name)
    for version in reversed(tags.versions if tags else []):
        record = _record_at(root, version.commit)
        if record is not None:
            yield f"{version.name}, commit {version.commit[:12]}", record


def _record_at(root: Path, commit: str) -> Path | None:
    return cached_out(root, lock_at(root, commit), f"{ONNX.as_posix()}/{EXPORT_RECORD}")
