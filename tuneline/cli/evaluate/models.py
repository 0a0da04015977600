"""The model to evaluate: of a folder, of a commit, or of a version or stage of the registry; with what is known of its training."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneline.cli.predict.streaming import ModelChoice, TextClassifier
from tuneline.core.errors import StageError
from tuneline.core.files import temporary_directory
from tuneline.core.paths import CHECKS, ONNX
from tuneline.project.dvc import by_key, cached_folder, cached_out
from tuneline.project.repo import git, lock_at, registries
from tuneline.reports.checks import Profile
from tuneline.reports.export import EXPORT_RECORD, ExportRecord

PROFILE = CHECKS / "profile.json"


@dataclass(frozen=True)
class EvaluatedModel:
    """A loaded model.

    Attributes:
        name: What the user named.
        record: Its ``export.json``.
        profile: Profile of its training data; ``None`` if it is not known.
    """

    name: str
    classifier: TextClassifier
    record: ExportRecord
    profile: Profile | None

    @property
    def params(self) -> Mapping[str, Any]:
        """Parameters with which it was made, by dotted key."""
        return by_key(stage.parameters for stage in self.record.provenance.stages.values())


@contextmanager
def found_model(root: Path, name: str, precision: str | None) -> Iterator[EvaluatedModel]:
    """Load a model.

    Raises:
        StageError: There is no such folder or commit, or DVC's cache lacks the model of the commit.
    """
    if Path(name).exists():
        profile = Profile.read_if_valid(root / PROFILE) if Path(name).resolve() == (root / ONNX).resolve() else None
        yield _load(name, Path(name), precision, profile)
        return
    commit = _commit(root, name)
    if commit is None:
        raise StageError(f"--model {name}: no folder, and no commit, version or stage that git knows.", "Run git fetch, or name another.")
    lock = lock_at(root, commit)
    files = cached_folder(root, lock, ONNX.as_posix())
    if files is None or None in files.values():
        hint = f"Run `dvc fetch --rev {commit[:12]} {ONNX} {CHECKS}`, if a DVC remote has them."
        raise StageError(f"--model {name}: DVC's cache does not have {ONNX} of {commit[:12]}.", hint)
    cached = cached_out(root, lock, PROFILE.as_posix())
    with temporary_directory() as folder:
        for file, path in files.items():
            (folder / file).symlink_to(Path(str(path)).absolute())
        yield _load(f"{name} ({commit[:12]})", folder, precision, Profile.read_if_valid(cached) if cached else None)


def _commit(root: Path, name: str) -> str | None:
    """Return the commit of a version or stage of the artifact ``onnx``, else the one that git knows by the name."""
    if tags := registries(root).get(ONNX.name):
        found = next((version for version in tags.versions if version.name == name), None) or tags.in_stage(name)
        if found is not None:
            return found.commit
    return git(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}") or None


def _load(name: str, folder: Path, precision: str | None, profile: Profile | None) -> EvaluatedModel:
    choice = ModelChoice(folder, precision)
    classifier, file = choice.load_and_warn(), choice.file()
    return EvaluatedModel(name, classifier, ExportRecord.read(file.parent / EXPORT_RECORD), profile)
