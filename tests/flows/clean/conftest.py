"""A clone without a pipeline, in which time passes as a test says."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from flows.clean import DAY, Cleaning
from flows.promotion.registry import Registry
from flows.runs.checkout import isolated
from flows.runs.commits import Run, RunResult, commit_run
from flows.runs.repository import Repository
from tests.faults.clones import git
from tuneline.settings import Retention

KEEP_ALL = Retention(
    **dict.fromkeys(Retention.model_fields.keys() - {"cache_wait_minutes", "own_cache", "remote"})
)


@dataclass
class Past:
    """What happened some days ago.

    Attributes:
        repository: The clone.
    """

    repository: Repository

    def run(self, name: str, days: float, change: Callable[[Path], object] | None = None) -> RunResult:
        """Leave the result of a run."""
        date = f"{int(time.time() - days * DAY)} +0000"
        with (
            pytest.MonkeyPatch.context() as patch,
            isolated(self.repository, f"{name}-0a1b2c3d", "main") as checkout,
        ):
            patch.setenv("GIT_COMMITTER_DATE", date)
            (change or (lambda path: (path / "result").write_text(name)))(checkout.path)
            return commit_run(self.repository, checkout, Run(id=name, name=name), "It ended.")

    def failure(self, name: str, days: float) -> Path:
        """Leave the checkout of a failed run, with a checkpoint."""
        with (
            pytest.raises(RuntimeError),
            isolated(self.repository, name, "main", (f"name={name}",)) as checkout,
        ):
            raise RuntimeError
        checkpoints = self.repository.root / "checkpoints" / name
        checkpoints.mkdir(parents=True)
        (checkpoints / "step").write_bytes(b"x" * 1000)
        self.age(checkpoints, days)
        return self.age(checkout.path, days)

    def age(self, path: Path, days: float) -> Path:
        os.utime(path, (time.time() - days * DAY,) * 2)
        return path


@pytest.fixture
def clone(tmp_path) -> Repository:
    root = tmp_path / "repo"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "repo")
    git(root, "config", "user.name", "A")
    git(root, "config", "user.email", "a@localhost")
    (root / ".dvc").mkdir()
    (root / ".dvc" / "config").touch()
    (root / ".dvc" / ".gitignore").write_text("/config.local\n/tmp\n/cache\n")
    git(root, "add", ".dvc")
    git(root, "commit", "--quiet", "--message=Start")
    (root / ".dvc" / "tmp" / "flows").mkdir(parents=True)
    return Repository(root)


@pytest.fixture
def past(clone) -> Past:
    return Past(clone)


@pytest.fixture
def cleaning(clone) -> Callable[..., Cleaning]:
    """A cleaning that keeps all but what the arguments say."""
    return lambda dry_run=False, push=False, **retention: cleaning_of(
        clone, dry_run=dry_run, push=push, **retention
    )


def cleaning_of(
    repository: Repository,
    *,
    dry_run: bool = False,
    push: bool = False,
    now: float | None = None,
    **retention,
) -> Cleaning:
    kept = KEEP_ALL.model_copy(update=retention)
    cleaning = Cleaning(
        Registry(repository, "onnx"), kept, time.time() if now is None else now, print, dry_run
    )
    return replace(cleaning, push=push)
