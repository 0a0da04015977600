"""The model in production, on this machine: fetched once, by its version, from the cache or the DVC remote."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

from flows.drift import Profile
from flows.line import Line
from flows.locks import locked
from flows.processes import ProgramError
from flows.registry import Registry, RegistryError, Version

PROFILE = Path("reports/checks/profile.json")
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
        RegistryError: Its commit does not name the artifact.
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
    artifacts = YAML(typ="safe", pure=True).load(registry.repository.show(version.commit, "dvc.yaml") or "{}").get("artifacts", {})
    if registry.artifact not in artifacts:
        raise RegistryError(f"dvc.yaml of {version.name} ({version.commit[:12]}) names no artifact {registry.artifact!r}.")
    partial = place.with_name(f".{place.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    source = ("get", str(registry.repository.root), "--rev", version.commit, "--out")
    line.dvc(*source, str(partial / "model"), artifacts[registry.artifact]["path"], what=f"Fetching {registry.artifact} {version.name}")
    try:
        line.dvc(*source, str(partial / PROFILE.name), str(PROFILE), what="Fetching the profile of its data")
    except ProgramError:
        line.on_line(f"{version.name} has no {PROFILE}: drift cannot be measured.")
    partial.replace(place)
