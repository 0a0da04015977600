"""Models of the registry for programs and services: which version is in a stage, and its files.

The repository is a checkout on this machine, or the address of one. Its tags decide, in the order of
``tuneline.core.repository.registry``. The files of a checkout come from DVC's cache, and what the cache lacks
from its default remote; those of an address come through DVC.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tuneline.core.paths import ONNX
from tuneline.core.repository.git import GitError, model_tags, run_git
from tuneline.core.repository.programs import run_dvc
from tuneline.core.repository.registry import RegistryTag, RegistryTags, Version
from tuneline.core.repository.worktrees import fetched_files
from tuneline.core.runtime.errors import StageError
from tuneline.core.runtime.files import temporary_directory

ARTIFACT = ONNX.name
"""Name of the models in the registry."""
PRODUCTION_STAGE = "production"
"""Stage of the registry whose model serves."""
SECONDS_TO_LIST = 60
"""Seconds in which an address has to list its tags."""


@dataclass(frozen=True)
class ModelRepository:
    """A repository whose registry has models.

    Attributes:
        place: Folder of a checkout, or an address that git can clone.
    """

    place: str

    @property
    def root(self) -> Path | None:
        """The checkout; ``None`` for an address."""
        return Path(self.place) if Path(self.place).is_dir() else None

    def tags(self) -> RegistryTags:
        """Return the registry of the models.

        Raises:
            StageError: Git cannot read the repository.
        """
        if self.root is not None:
            return model_tags(self.root)
        return self._remote_tags()

    def version(self, stage: str = PRODUCTION_STAGE) -> Version:
        """Return the version that is in a stage.

        Raises:
            StageError: No version is in it, or git cannot read the repository.
        """
        version = self.tags().in_stage(stage)
        if version is None:
            raise StageError(
                f"{self.place}: no model is in {stage}.",
                "`gto show onnx` lists what is registered. The flow train promotes models.",
            )
        return version

    @contextmanager
    def files(self, version: Version) -> Iterator[Path]:
        """Yield a folder with the files of a version, which ends with the block.

        Those of a checkout are links into DVC's cache, which has files under their hashes.

        Raises:
            StageError: Neither the cache nor the remote has them, or they are damaged.
        """
        with temporary_directory() as temporary:
            folder = temporary / ARTIFACT
            if self.root is None:
                self._get(version, folder)
            else:
                files = fetched_files(self.root, version.commit, ONNX.as_posix())
                folder.mkdir()
                for name, file in files.items():
                    (folder / name).symlink_to(file.absolute())
            yield folder

    def _get(self, version: Version, folder: Path) -> None:
        """Copy the files of an address through DVC, from the remote that the repository names."""
        options = ["--rev", version.commit, "-o", str(folder)]
        reason = run_dvc(folder.parent, "get", *options, "--", self.place, ONNX.as_posix())
        if reason is not None:
            name = f"{ARTIFACT} {version.name} ({version.commit[:12]})"
            raise StageError(
                f"{self.place}: {name} cannot be fetched: {reason}",
                "If another machine has it, there: dvc push --all-tags",
            )

    def _listed_tags(self) -> str:
        """Return the tags of an address, as git lists them. It is given up where nobody answers.

        Raises:
            StageError: Git cannot list them, or would ask for a password.
        """
        try:
            return run_git(Path(), "ls-remote", "--tags", "--", self.place, timeout=SECONDS_TO_LIST)
        except GitError:
            raise StageError(
                f"{self.place} is no folder, and git cannot list its tags.",
                f"`git ls-remote {self.place}` says why.",
            ) from None

    def _remote_tags(self) -> RegistryTags:
        """Return the registry of a repository that is not on this machine.

        The dates and messages of its tags, which decide nothing, are not known.
        """
        # An annotated tag is listed twice: its own object, and with ^{} the commit that it names.
        printed = self._listed_tags()
        objects: dict[str, str] = {}
        commits: dict[str, str] = {}
        for line in printed.splitlines():
            sha, _, ref = line.partition("\t")
            name = ref.removeprefix("refs/tags/")
            if name.endswith("^{}"):
                commits[name.removesuffix("^{}")] = sha
            else:
                objects[name] = sha

        tags = []
        for name, tag_object in objects.items():
            tag = RegistryTag.parse(name, tag_object, commits.get(name, ""))
            if tag is not None and tag.artifact == ARTIFACT:
                tags.append(tag)
        return RegistryTags(ARTIFACT, tuple(tags))


@contextmanager
def found_models(name: str) -> Iterator[tuple[str, Path]]:
    """Yield what people call the models of a folder, or of a stage of this checkout, and their folder.

    The files of a stage are in a temporary folder, which is removed at the end of the block.

    Raises:
        StageError: There is no such folder or stage, or the files of its version cannot be fetched.
    """
    if Path(name).exists():
        yield name, Path(name)
        return
    models = ModelRepository(".")
    version = models.version(name)
    with models.files(version) as folder:
        yield f"{name} ({version.name})", folder
