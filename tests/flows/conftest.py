"""A repository with a small pipeline: git, DVC, a task that is stronger and one that is weaker."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dvc.utils.hydra import compose_and_dump
from prefect.client.schemas.objects import FlowRun

from flows.train import train
from tests.conftest import made_once
from tests.dvc_files import configure_dvc, init_dvc
from tests.flows.prefect_server import Prefect, prefect_server
from tests.project import GIT_IDENTITY
from tuneline.core.repository.programs import Programs
from tuneline.core.repository.worktrees import at_commit
from tuneline.operations.promotion.registry import PROFILE, Registry
from tuneline.operations.runs.pipeline import Pipeline
from tuneline.operations.runs.repository import Repository

TOY = Path(__file__).parent / "toy"
UNLIKE = "dear people would you please be so kind and help"
"""A greeting that makes texts longer than those of the training."""


def sh(*command: str, cwd: Path, **more) -> str:
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        **GIT_IDENTITY,
        **more.pop("env", {}),
    }
    return subprocess.run(
        command, cwd=cwd, env=env, check=True, capture_output=True, text=True, **more
    ).stdout


def compose(root: Path, *overrides: str) -> None:
    """Write ``params.yaml`` as ``dvc exp run -S`` does."""
    compose_and_dump(root / "params.yaml", str(root / "conf"), None, "config", str(root), list(overrides))


def ref_with(root: Path, *overrides: str) -> str:
    """Return a commit of main with other parameters."""
    with at_commit(root, "main") as tree:
        compose(tree, *overrides)
        sh("git", "commit", "--quiet", "--all", "--message=Other parameters", cwd=tree)
        return sh("git", "rev-parse", "HEAD", cwd=tree).strip()


@pytest.fixture(scope="session")
def toy_template(tmp_path_factory, homes) -> Path:
    """Made once.

    Its three tasks have run before, so that most runs of the tests find their stages in DVC's cache.
    """
    return made_once(tmp_path_factory, "toy", make_toy)


def make_toy(root: Path) -> None:
    shutil.copytree(TOY, root, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "gitignore").rename(root / ".gitignore")
    sh("git", "init", "--quiet", "--initial-branch=main", cwd=root)
    init_dvc(root)
    configure_dvc(root, "hydra", enabled="true")
    configure_dvc(root, "core", analytics="false")
    sh("git", "config", "user.email", "tests@localhost", cwd=root)
    sh("git", "config", "user.name", "Tests", cwd=root)
    sh("git", "add", "--all", cwd=root)
    sh("git", "commit", "--quiet", "--message=A small pipeline", cwd=root)
    programs = Programs(root, "toy")
    for overrides in ([], ["task=strong"], ["task=weak"]):
        compose(root, *overrides)
        programs.dvc("repro", "--quiet", what="A small pipeline", on_line=lambda _line: None)
    sh("git", "checkout", "--quiet", ".", cwd=root)
    sh("git", "clean", "--quiet", "-fdx", "--exclude=.dvc", cwd=root)


@pytest.fixture
def toy(toy_template, tmp_path, monkeypatch) -> Repository:
    """A fresh repository of the small pipeline; the flows find it through the environment."""
    root = tmp_path / "repo"
    shutil.copytree(toy_template, root, symlinks=True)
    monkeypatch.setenv("TUNELINE_REPOSITORY", str(root))
    return Repository(root)


@pytest.fixture(scope="session")
def served(tmp_path_factory, homes) -> Iterator[Prefect]:
    """One Prefect server for all tests of a session, which tests/conftest.py gives to one worker: it takes
    most of a minute to be ready."""
    with prefect_server(tmp_path_factory.mktemp("prefect") / "home") as served:
        yield served


@pytest.fixture
def run(served, toy) -> Callable[..., FlowRun]:
    """Runs flow ``train`` in this process and returns the run as the API has it."""

    def run(overrides: list[str] | None = None, **parameters) -> FlowRun:
        if overrides:
            parameters["ref"] = ref_with(toy.root, *overrides)
        state = train(**parameters, return_state=True)
        return served.run(state.state_details.flow_run_id)

    return run


@pytest.fixture
def registry(toy) -> Registry:
    """Of the model that the small pipeline makes."""
    return Registry(toy)


@pytest.fixture
def pipeline(toy) -> Pipeline:
    """The small pipeline in the repository itself."""
    return Pipeline(Programs(toy.root, "test-line"), lambda _line: None)


@pytest.fixture
def make(toy, pipeline) -> Callable[..., str]:
    """Run the pipeline in the repository itself with some parameters, and commits."""

    def make(*overrides: str) -> str:
        compose(toy.root, *overrides)
        pipeline.dvc("repro", what="The pipeline")
        sh("git", "add", "--all", cwd=toy.root)
        sh("git", "commit", "--quiet", "--allow-empty", "--message=A run", cwd=toy.root)
        return toy.resolve("HEAD")

    return make


@pytest.fixture
def promoted(toy, registry, pipeline) -> dict:
    """Put the pipeline's present result into production and return the profile of its data."""
    pipeline.dvc("repro", "--quiet", what="The pipeline")
    sh("git", "add", "--all", cwd=toy.root)
    sh("git", "commit", "--quiet", "--message=A run", cwd=toy.root)
    registry.promote(toy.resolve("HEAD"), "It is good.")
    profile = json.loads((toy.root / PROFILE).read_text())
    shutil.rmtree(toy.root / "reports")
    return profile


@pytest.fixture
def put(toy) -> Callable[..., None]:
    """Puts a file into the inbox."""

    def put(name: str, texts: list[str], column: str = "text") -> None:
        path = toy.root / "data" / "inbox" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([column, *texts]) + "\n")

    return put


def tickets(rows: int, greeting: str = "please help") -> list[str]:
    """Texts like those that the small pipeline trains on, unless they greet otherwise."""
    return [f"{greeting} w{row * 7 % 400}" for row in range(rows)]
