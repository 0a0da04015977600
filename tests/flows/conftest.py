"""A repository with a small pipeline: git, DVC, a task that is stronger and one that is weaker."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prefect.client.schemas.objects import FlowRun

from flows.promotion.reference import PROFILE
from flows.promotion.registry import Registry
from flows.runs.pipeline import Pipeline
from flows.runs.processes import Programs
from flows.runs.repository import Repository
from flows.train import train
from tests.flows.prefect_server import Prefect, prefect_server
from tests.project import GIT_IDENTITY

TOY = Path(__file__).parent / "toy"
UNLIKE = "dear people would you please be so kind and help"
"""A greeting that makes texts longer than those of the training."""


def sh(*command: str, cwd: Path, **more) -> str:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **GIT_IDENTITY, **more.pop("env", {})}
    return subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True, text=True, **more).stdout


@pytest.fixture(autouse=True, scope="session")
def bytecode(tmp_path_factory):
    """Dozens of processes import Prefect and DVC: half of their time is compiling, where nothing keeps what was compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.mktemp("bytecode")))
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


@pytest.fixture(scope="session")
def toy_template(tmp_path_factory, homes, bytecode) -> Path:
    """Made once. Its three tasks have run before, so that most runs of the tests find their stages in DVC's cache."""
    root = tmp_path_factory.mktemp("toy") / "repo"
    shutil.copytree(TOY, root, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "gitignore").rename(root / ".gitignore")
    sh("git", "init", "--quiet", "--initial-branch=main", cwd=root)
    sh("dvc", "init", "--quiet", cwd=root)
    sh("dvc", "config", "hydra.enabled", "true", cwd=root)
    sh("dvc", "config", "core.analytics", "false", cwd=root)
    sh("git", "config", "user.email", "tests@localhost", cwd=root)
    sh("git", "config", "user.name", "Tests", cwd=root)
    sh("git", "add", "--all", cwd=root)
    sh("git", "commit", "--quiet", "--message=A small pipeline", cwd=root)
    with Programs(root, "toy") as programs:
        for overrides in ([], ["task=strong"], ["task=weak"]):
            Pipeline(programs, print).compose(overrides)
            programs.run(["dvc", "repro", "--quiet"], "A small pipeline", lambda _line: None)
    sh("git", "checkout", "--quiet", ".", cwd=root)
    sh("git", "clean", "--quiet", "-fdx", "--exclude=.dvc", cwd=root)
    return root


@pytest.fixture
def toy(toy_template, tmp_path, monkeypatch) -> Repository:
    """A fresh repository of the small pipeline; the flows find it through the environment."""
    root = tmp_path / "repo"
    shutil.copytree(toy_template, root, symlinks=True)
    monkeypatch.setenv("TUNELINE_REPOSITORY", str(root))
    return Repository(root)


@pytest.fixture(scope="session")
def served(tmp_path_factory, homes, bytecode) -> Iterator[Prefect]:
    """One Prefect server for all tests of a session: it takes most of a minute to be ready."""
    with prefect_server(tmp_path_factory.mktemp("prefect") / "home") as served:
        yield served


@pytest.fixture
def run(served, toy) -> Callable[..., FlowRun]:
    """Runs flow ``train`` in this process and returns the run as the API has it."""

    def run(**parameters) -> FlowRun:
        state = train(**parameters, return_state=True)
        return served.run(state.state_details.flow_run_id)

    return run


@pytest.fixture
def registry(toy) -> Registry:
    """Of the model that the small pipeline makes."""
    return Registry(toy, "onnx")


@pytest.fixture
def pipeline(toy) -> Iterator[Pipeline]:
    """The small pipeline in the repository itself."""
    with Programs(toy.root, "test-line") as programs:
        yield Pipeline(programs, lambda _line: None)


@pytest.fixture
def promoted(toy, registry, pipeline) -> dict:
    """Put the pipeline's present result into production and return the profile of its data."""
    pipeline.dvc("repro", "--quiet", what="The pipeline")
    sh("git", "add", "--all", cwd=toy.root)
    sh("git", "commit", "--quiet", "--message=A run", cwd=toy.root)
    registry.promote(toy.resolve("HEAD"), "production", "It is good.")
    profile = json.loads((toy.root / PROFILE).read_text())
    shutil.rmtree(toy.root / "reports")
    return profile


@pytest.fixture
def put(toy) -> Callable[..., None]:
    """Puts a file into the inbox, a minute ago."""

    def put(name: str, texts: list[str], column: str = "text") -> None:
        path = toy.root / "data" / "inbox" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([column, *texts]) + "\n")
        os.utime(path, (time.time() - 60,) * 2)

    return put


def tickets(rows: int, greeting: str = "please help") -> list[str]:
    """Texts like those that the small pipeline trains on, unless they greet otherwise."""
    return [f"{greeting} w{row * 7 % 400}" for row in range(rows)]
