"""A project to train in, and a fresh accelerate for each run."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState

from stages.train.devices import create_accelerator
from stages.train.inputs import read_inputs
from stages.train.interruption import Interruption
from stages.train.loop import train
from stages.train.state import TrainingResult
from tests.conftest import ROOT
from tests.stages.train import made
from tuneline.params import Params


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Path:
    """A folder with tokenized splits."""
    folder = tmp_path_factory.mktemp("data")
    made.write_data(folder)
    return folder


def fill(folder: Path, data: Path) -> Path:
    """Makes a folder a project that can train."""
    shutil.copytree(data / "data", folder / "data")
    shutil.copytree(ROOT / "conf/accelerate", folder / "conf/accelerate")
    return folder


@pytest.fixture
def project(tmp_path, data, monkeypatch) -> Path:
    """A folder of its own to train in, and the working directory."""
    monkeypatch.chdir(tmp_path)
    return fill(tmp_path, data)


@pytest.fixture
def accelerated(monkeypatch):
    """Accelerate keeps its state for the life of a process; a test begins without."""
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    _forget()
    yield
    _forget()


def _forget() -> None:
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


@pytest.fixture
def trained(project, accelerated) -> Callable[[Params], TrainingResult]:
    """Trains in this process, without publishing."""

    def run(params: Params) -> TrainingResult:
        _forget()
        accelerator: Accelerator = create_accelerator(params)
        return train(params, read_inputs(params.train), accelerator, Interruption())

    return run
