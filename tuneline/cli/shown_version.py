"""The version that an answer names: which commit made it, and where its record is."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tuneline.onnx.usage import EXPORT_RECORD, UsageRecord, content_version
from tuneline.paths import ONNX
from tuneline.repository.dvc import cached_out
from tuneline.repository.git import lock_at, registries
from tuneline.runtime.errors import StageError


@dataclass(frozen=True)
class ShownVersion:
    """A model that a version names.

    Attributes:
        title: What it is, in a line.
        record: Its ``export.json``.
    """

    title: str
    record: Path


def find_version(root: Path, name: str) -> ShownVersion:
    """Find the model that answers name as their version.

    Args:
        root: The project.
        name: A version or stage of the registry, or the start of a hash as models have it that are none.

    Raises:
        StageError: No model has that name here, or DVC's cache lacks its record.
    """
    tags = registries(root).get(ONNX.name)
    for version in tags.versions if tags else []:
        if version.name == name:
            return _registered(root, version.name, version.commit)
    staged = tags.in_stage(name) if tags else None
    if staged is not None:
        return _registered(root, staged.name, staged.commit)

    for shown in _models(root):
        record = UsageRecord.read(shown.record)
        for precision, model in record.models.items():
            if content_version(record, model) == name:
                return ShownVersion(f"{shown.title}, {precision}", shown.record)
    raise StageError(
        f"{name}: no folder, no version or stage of the registry, and no model in {ONNX} or DVC's cache has"
        " that version.",
        "`git fetch --tags` and `tuneline versions --all` list what is registered.",
    )


def _registered(root: Path, name: str, commit: str) -> ShownVersion:
    record = cached_out(root, lock_at(root, commit), f"{ONNX.as_posix()}/{EXPORT_RECORD}")
    if record is None:
        raise StageError(
            f"{name}: DVC's cache does not have {ONNX} of {commit[:12]}.",
            f"Run `dvc fetch --rev {commit[:12]} {ONNX}`, if a DVC remote has it.",
        )
    return ShownVersion(f"{name}, commit {commit[:12]}", record)


def _models(root: Path) -> Iterator[ShownVersion]:
    """Yield the model of the working tree, and those of the registry that the cache has."""
    own = root / ONNX / EXPORT_RECORD
    if own.exists():
        yield ShownVersion(f"the model in {ONNX}", own)
    tags = registries(root).get(ONNX.name)
    for version in reversed(tags.versions if tags else []):
        record = cached_out(root, lock_at(root, version.commit), f"{ONNX.as_posix()}/{EXPORT_RECORD}")
        if record is not None:
            yield ShownVersion(f"{version.name}, commit {version.commit[:12]}", record)
