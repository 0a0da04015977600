"""The model in production, on this machine: fetched once per version from DVC's cache or remote."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from flows.promotion.reference import PROFILE, fetch_profile
from flows.promotion.registry import Registry
from flows.runs.pipeline import Pipeline, PipelineFiles
from flows.runs.repository import locked
from tuneline.errors import DataError
from tuneline.files import replace_directory
from tuneline.records.export import EXPORT_RECORD, UsageRecord
from tuneline.records.profile import Profile
from tuneline.registry import Version

MODELS = Path("models")
"""Folder of fetched models in the repository's folder of states; ``.lock`` in it is held while it changes."""


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
    """Fetch a version, unless it is on this machine already and undamaged.

    Raises:
        ProgramError: The model is neither in the cache nor in the DVC remote.
        ArtifactError: ``dvc.yaml`` of its commit does not list the artifact.
        DataError: The model in the cache or in the DVC remote is damaged.
    """
    models = registry.repository.state / MODELS
    models.mkdir(parents=True, exist_ok=True)
    folder = models / f"{registry.artifact}-{version.name}-{version.commit[:12]}"
    with locked(models / ".lock", wait=600):
        try:
            model = _load(registry, version, folder)
        except (DataError, OSError) as problem:
            pipeline.on_line(f"Fetching {registry.artifact} {version.name}: {problem}")
            with replace_directory(folder) as partial:
                _fetch(registry, version, pipeline, partial)
            model = _load(registry, version, folder)
        folder.touch()  # flow `clean` keeps those that were used last
    return model


def _load(registry: Registry, version: Version, folder: Path) -> DeployedModel:
    """Load a fetched version.

    Raises:
        DataError: The model is missing, or is not the one that ``dvc.lock`` of its commit names; or its profile is damaged.
    """
    files, model = PipelineFiles.of_commit(registry.repository, version.commit), folder / "model"
    md5 = files.lock.out(files.artifact(registry.artifact))
    if not model.is_dir():
        raise DataError(f"{model} is missing.")
    if md5 is not None and content_hash(model) != md5:
        raise DataError(f"{model} is damaged: dvc.lock of {version.commit[:12]} has another hash for it, {md5}.")
    return DeployedModel(version, model, Profile.read_if_exists(folder / PROFILE.name))


def content_hash(folder: Path) -> str:
    """Return the hash that DVC gives a folder: the MD5 of the list of its files, each with the MD5 of its content."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    listing = json.dumps([{"md5": _md5(paths[name]), "relpath": name} for name in sorted(paths)])
    return hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest() + ".dir"


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _fetch(registry: Registry, version: Version, pipeline: Pipeline, folder: Path) -> None:
    repository = registry.repository
    model = PipelineFiles.of_commit(repository, version.commit).artifact(registry.artifact)
    pipeline.get(repository, model, version.commit, folder / "model", f"Fetching {registry.artifact} {version.name}")
    fetch_profile(pipeline, repository, version, folder / PROFILE.name)
