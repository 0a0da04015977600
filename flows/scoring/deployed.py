"""The model in production, on this machine: fetched once, by its version, from the cache or the DVC remote."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from flows.promotion.reference import PROFILE, fetch_profile
from flows.promotion.registry import Registry, Version
from flows.runs.line import Line
from flows.runs.locks import locked
from flows.runs.snapshot import Snapshot
from flows.scoring.drift import Profile

KEPT = 3


@dataclass(frozen=True)
class Served:
    """A model that can be asked.

    Attributes:
        version: Its version.
        folder: ``model.onnx`` with its tokenizer and ``export.json``.
        profile: What it was trained on looked like; ``None`` when its commit has no profile.
    """

    version: Version
    folder: Path
    profile: Profile | None

    @property
    def text_columns(self) -> list[str]:
        """The columns that it reads."""
        return list(json.loads((self.folder / "export.json").read_text(encoding="utf-8"))["text_columns"])


def serve(registry: Registry, version: Version, line: Line) -> Served:
    """Fetches a version, unless it is there already.

    Raises:
        ProgramError: It is neither in the cache nor in the DVC remote.
        SnapshotError: Its commit does not name the artifact.
    """
    models = registry.repository.state / "models"
    models.mkdir(parents=True, exist_ok=True)
    place = models / f"{registry.artifact}-{version.name}-{version.commit[:12]}"
    with locked(models / ".lock", wait=600):
        if not place.exists():
            _fetch(registry, version, line, place)
        place.touch()
        for old in sorted((path for path in models.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)
    profile = place / PROFILE.name
    return Served(version, place / "model", Profile.of(json.loads(profile.read_text(encoding="utf-8"))) if profile.exists() else None)


def _fetch(registry: Registry, version: Version, line: Line, place: Path) -> None:
    repository = registry.repository
    model = Snapshot.of_commit(repository, version.commit).artifact(registry.artifact)
    partial = place.with_name(f".{place.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    source = ("get", str(repository.root), model, "--rev", version.commit)
    line.dvc(*source, "--out", str(partial / "model"), what=f"Fetching {registry.artifact} {version.name}")
    fetch_profile(line, repository, version, partial / PROFILE.name)
    partial.replace(place)
