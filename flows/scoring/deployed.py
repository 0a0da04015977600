"""The model in production, on this machine: fetched once per version from DVC's cache or remote."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from flows.promotion.reference import PROFILE, fetch_profile
from flows.promotion.registry import Registry
from flows.runs.pipeline import Pipeline, PipelineFiles
from flows.runs.repository import locked
from tuneline.files import replace_directory
from tuneline.records.export import EXPORT_RECORD, UsageRecord
from tuneline.records.profile import Profile
from tuneline.registry import Version

KEPT = 3
"""Number of fetched models that are kept."""


@dataclass(frozen=True)
class DeployedModel:
    """A registered model on this machine.

    Attributes:
        version: Its version.
        folder: ``model.onnx`` with its tokenizer and ``export.json``.
        profile: Profile of its training data; ``None`` if its commit has none.
    """

    version: Version
    folder: Path
    profile: Profile | None

    @property
    def text_columns(self) -> list[str]:
        """Names of the columns that it reads."""
        return list(UsageRecord.read(self.folder / EXPORT_RECORD).text_columns)


def fetch_model(registry: Registry, version: Version, pipeline: Pipeline) -> DeployedModel:
    """Fetch a version, unless it is on this machine already.

    Raises:
        ProgramError: The model is neither in the cache nor in the DVC remote.
        ArtifactError: ``dvc.yaml`` of its commit does not list the artifact.
    """
    models = registry.repository.state / "models"
    models.mkdir(parents=True, exist_ok=True)
    folder = models / f"{registry.artifact}-{version.name}-{version.commit[:12]}"
    with locked(models / ".lock", wait=600):
        if not folder.exists():
            with replace_directory(folder) as partial:
                _fetch(registry, version, pipeline, partial)
        folder.touch()
        for old in sorted((path for path in models.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)
    return DeployedModel(version, folder / "model", Profile.read_if_exists(folder / PROFILE.name))


def _fetch(registry: Registry, version: Version, pipeline: Pipeline, folder: Path) -> None:
    repository = registry.repository
    model = PipelineFiles.of_commit(repository, version.commit).artifact(registry.artifact)
    source = ("get", str(repository.root), model, "--rev", version.commit)
    pipeline.dvc(*source, "--out", str(folder / "model"), what=f"Fetching {registry.artifact} {version.name}")
    fetch_profile(pipeline, repository, version, folder / PROFILE.name)
