"""Projects to train in, and an accelerator without state of earlier tests."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState

from tests.conftest import ROOT
from tests.params import copy_code
from tests.tuneline.training import launcher, tiny_task
from tuneline.core.params import Params
from tuneline.core.paths import CHECKPOINTS
from tuneline.training import loop, state
from tuneline.training.data import read_inputs
from tuneline.training.devices import create_accelerator
from tuneline.training.interruption import Interruption
from tuneline.training.loop import train_model
from tuneline.training.state import TrainingResult


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Path:
    """A folder with tokenized splits."""
    folder = tmp_path_factory.mktemp("data")
    tiny_task.write_data(folder)
    return folder


def fill(folder: Path, data: Path) -> Path:
    """Copy tokenized splits, launch configurations and code into a folder: the stage can run there."""
    copy_code(folder)
    shutil.copytree(data / "data", folder / "data")
    shutil.copytree(data / "models/base", folder / "models/base")
    shutil.copytree(ROOT / "conf/accelerate", folder / "conf/accelerate")
    return folder


@pytest.fixture
def project(tmp_path, data, monkeypatch) -> Path:
    """A project with tokenized splits, as the working directory."""
    monkeypatch.chdir(tmp_path)
    return fill(tmp_path, data)


@pytest.fixture
def accelerated(monkeypatch):
    """Reset the state that accelerate keeps for the life of a process."""
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    _reset_accelerate()
    yield
    _reset_accelerate()


def _reset_accelerate() -> None:
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


@pytest.fixture
def trained(project, accelerated, monkeypatch) -> Callable[..., TrainingResult]:
    """Return a function that trains in this process, without publishing.

    Only with ``resume``, it uses earlier checkpoints. Each step is a row of the curve.
    """
    monkeypatch.setattr(loop, "LOG_EVERY_STEPS", 1)

    def run(params: Params, resume: bool = False) -> TrainingResult:
        _reset_accelerate()
        if not resume:
            shutil.rmtree(CHECKPOINTS, ignore_errors=True)
        accelerator: Accelerator = create_accelerator(params)
        return train_model(params, read_inputs(params.train), accelerator, Interruption())

    return run


@pytest.fixture
def memory_for(monkeypatch) -> Callable[..., None]:
    """Return a function that limits the examples in one forward pass, of training or of evaluations, as the
    memory of a GPU does."""
    build = state.build_model

    def limit(examples: int, training: bool = True) -> None:
        def limited(*arguments):
            model, drawn = build(*arguments)

            def check(module, args, inputs):
                if module.training == training and len(inputs["input_ids"]) > examples:
                    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")

            model.register_forward_pre_hook(check, with_kwargs=True)
            return model, drawn

        monkeypatch.setattr(state, "build_model", limited)

    return limit


@pytest.fixture(scope="session")
def tracked_run(tmp_path_factory, data) -> Path:
    """A project in which the stage has run. Only read it."""
    project = fill(tmp_path_factory.mktemp("tracked"), data)
    tiny_task.write_params(project)
    assert launcher.run(project) == [0], launcher.output(project)
    return project
