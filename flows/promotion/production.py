"""The model in production on this machine, fetched once per version, and the profile of its data.

New data are compared with the profile. The registry says which model is in production, so a promotion or
rollback takes effect in the next run. A run of flow ``train`` writes the profile before its first stage and
commits it with its result: stage ``validate`` remains a function of files that the commit names.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flows.promotion.registry import Registry
from flows.runs.pipeline import Pipeline
from flows.runs.processes import Programs
from flows.runs.repository import Repository
from tuneline.onnx.usage import EXPORT_RECORD, UsageRecord
from tuneline.paths import CHECKS, REFERENCE_PROFILE
from tuneline.reports.checks import Profile
from tuneline.repository.dvc import default_remote, folder_hash
from tuneline.repository.git import artifact_path, lock_at
from tuneline.repository.registry import Version, names_of
from tuneline.repository.worktrees import at_commit, lacking_in_remote
from tuneline.runtime.atomic_files import replace_directory
from tuneline.runtime.errors import DataError
from tuneline.runtime.locks import locked
from tuneline.runtime.wording import listed

MODELS = Path("models")
"""Folder of fetched models in the repository's folder of states; ``.lock`` in it is held while it changes."""
KEPT_MODELS = 3
"""Number of fetched models that stay on this machine."""
PROFILE = CHECKS / "profile.json"
"""The profile that ``validate`` writes."""


@dataclass(frozen=True)
class FetchedModel:
    """A registered model on this machine.

    Attributes:
        folder: Folder with ``model.onnx``, tokenizer and ``export.json``.
        profile: Profile of the model's data, if it has one.
    """

    version: Version
    folder: Path
    profile: Profile | None

    @property
    def text_columns(self) -> list[str]:
        """Names of the columns that it reads."""
        return list(UsageRecord.read(self.folder / EXPORT_RECORD).text_columns)


def fetch_model(registry: Registry, version: Version, pipeline: Pipeline) -> FetchedModel:
    """Fetch a version from DVC's cache or remote, unless it is on this machine already and undamaged.

    Raises:
        ProgramError: The model is neither in the cache nor, undamaged, in the DVC remote.
        ArtifactError: ``dvc.yaml`` of its commit does not list the artifact.
        DataError: The model in the cache is damaged.
    """
    root = registry.repository.root
    models = registry.repository.state / MODELS
    models.mkdir(parents=True, exist_ok=True)
    path = artifact_path(root, registry.artifact, version.commit)
    md5 = lock_at(root, version.commit).out(path)
    folder = models / f"{registry.artifact}-{version.name}-{version.commit[:12]}"

    # Another flow may fetch the same version at this moment.
    what = f"Fetching {registry.artifact} {version.name}"
    with locked(models / ".lock", wait=600):
        try:
            model = _load(version, folder, md5)
        except (DataError, OSError) as problem:
            pipeline.on_line(f"{what}: {problem}")
            with replace_directory(folder) as partial:
                pipeline.get(registry.repository, path, version.commit, partial / "model", what)
                fetch_profile(pipeline, registry.repository, version, partial / PROFILE.name)
            model = _load(version, folder, md5)
        # The models that were used last stay: the cache or the DVC remote has the others.
        folder.touch()
        fetched = sorted(models.glob("[!.]*/"), key=lambda path: path.stat().st_mtime)
        for old in fetched[:-KEPT_MODELS]:
            shutil.rmtree(old, ignore_errors=True)
    return model


def _load(version: Version, folder: Path, md5: str | None) -> FetchedModel:
    """Load a fetched version.

    Raises:
        DataError: It is missing or damaged: not what ``dvc.lock`` of its commit names.
    """
    model = folder / "model"
    if not model.is_dir():
        raise DataError(f"{model} is missing.")
    if md5 is not None and folder_hash(model) != md5:
        raise DataError(
            f"{model} is damaged: dvc.lock of {version.commit[:12]} has another hash for it, {md5}."
        )
    return FetchedModel(version, model, Profile.read_if_exists(folder / PROFILE.name))


def fetch_reference(pipeline: Pipeline, registry: Registry, stage: str) -> Version | None:
    """Write ``data/reference/profile.json``, which stage ``validate`` reads, if the checkout has that folder.

    Returns:
        The version whose profile was written; ``None`` if no model is in the stage yet, or its commit has no
        profile.

    Raises:
        ProgramError: The profile is neither in the cache nor in the DVC remote.
    """
    target = pipeline.programs.cwd / REFERENCE_PROFILE
    if not target.parent.is_dir():
        return None
    version = registry.in_stage(stage)
    if version is None or not fetch_profile(pipeline, registry.repository, version, target):
        return None
    return version


def fetch_profile(pipeline: Pipeline, repository: Repository, version: Version, target: Path) -> bool:
    """Fetch the profile of a version's data; return False if it has none.

    Raises:
        ProgramError: The profile is neither in the cache nor in the DVC remote.
    """
    if lock_at(repository.root, version.commit).out(str(PROFILE.parent)) is None:
        pipeline.on_line(f"{version.name} ({version.commit[:12]}) has no {PROFILE}.")
        return False
    message = f"Fetching {PROFILE} of {version.name}"
    pipeline.get(repository, str(PROFILE), version.commit, target, message)
    return True


def push_versions(pipeline: Pipeline, root: Path, versions: Sequence[Version]) -> list[str]:
    """Push the outs of versions to the DVC remote, if there is one; return what is lost, in words."""
    if versions and not default_remote(root):
        names = names_of(versions)
        pipeline.on_line(f"ERROR: DVC has no default remote: the data of {names} exist on this machine only.")
        return []

    lost = []
    for version in versions:
        what = f"Pushing the data of {version.name} to the DVC remote"
        # A commit may be older than the remote, so `dvc push --all-tags` leaves it out.
        with at_commit(root, version.commit) as tree:
            programs = Programs(tree, "push")
            Pipeline(programs, pipeline.on_line, pipeline.lock_wait).dvc("push", "--quiet", what=what)
            paths = lacking_in_remote(tree)
        if paths:
            lost.append(f"ERROR: of {version.name}, neither the cache nor the DVC remote has {listed(paths)}")
            pipeline.on_line(lost[-1])
    return lost
