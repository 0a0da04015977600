"""What ``dvc.yaml`` and ``dvc.lock`` say, in a checkout or in a commit, without checking it out."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ruamel.yaml import YAML

from flows.runs.repository import Repository


class SnapshotError(Exception):
    """The line there does not name what was asked for."""


@dataclass(frozen=True)
class Snapshot:
    """A line and the versions of what it made.

    Attributes:
        place: Where it was read, for people.
        pipeline: ``dvc.yaml``.
        lock: ``dvc.lock``.
    """

    place: str
    pipeline: Mapping[str, Any]
    lock: Mapping[str, Any]

    @classmethod
    def of_checkout(cls, root: Path) -> Self:
        """Reads a working tree."""
        files = (root / "dvc.yaml", root / "dvc.lock")
        return cls(str(root), *(_yaml(file.read_text(encoding="utf-8") if file.exists() else None) for file in files))

    @classmethod
    def of_commit(cls, repository: Repository, commit: str) -> Self:
        """Reads a commit."""
        return cls(commit[:12], *(_yaml(repository.show(commit, file)) for file in ("dvc.yaml", "dvc.lock")))

    def artifact(self, name: str) -> str:
        """Path of an artifact.

        Raises:
            SnapshotError: There is none of that name.
        """
        artifacts = self.pipeline.get("artifacts", {})
        if name not in artifacts:
            raise SnapshotError(f"dvc.yaml of {self.place} has no artifact {name!r}; promotion.artifact in conf/flows.yaml names it.")
        return str(artifacts[name]["path"])

    def md5(self, path: str) -> str | None:
        """Hash of an out; ``None`` where the line has not made it."""
        outs = (out for stage in self.lock.get("stages", {}).values() for out in stage.get("outs", []))
        return next((out.get("md5") for out in outs if out["path"] == path), None)

    def parameter(self, stage: str, name: str) -> Any:
        """A parameter of ``params.yaml`` as a stage last ran with it."""
        return self.lock.get("stages", {}).get(stage, {}).get("params", {}).get("params.yaml", {}).get(name)


def _yaml(text: str | None) -> dict[str, Any]:
    return dict(YAML(typ="safe", pure=True).load(text or "") or {})
