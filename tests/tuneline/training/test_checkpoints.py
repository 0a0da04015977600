import pytest
from ruamel.yaml import YAML

from tests.conftest import ROOT
from tests.params import params
from tests.tuneline.training import tiny_task
from tuneline.core.runtime.errors import StageError
from tuneline.training import checkpoints
from tuneline.training.checkpoints import run_identity, training_lock
from tuneline.training.devices import create_accelerator


@pytest.fixture
def stopped(project, trained, monkeypatch):
    """Return a function that trains 16 steps and returns the checkpoint folder as a kill before publishing
    would leave it."""
    return lambda **train: trained(tiny_task.params(**train)).state.checkpoints.folder


CHANGES = {
    "seed": {"seed": 4},
    "data.text_columns": {"data": {"text_columns": ["body"]}},
    "model.config": {"model": {**tiny_task.FINE_TUNED, "config": {"hidden_dropout_prob": 0.0}}},
    "model.head": {"model": {**tiny_task.FINE_TUNED, "head": "auto"}},
    "train": {"train": {"learning_rate": 1e-4}},
}
"""Changes of the parameters that ``dvc.yaml`` lists for the stage."""


@pytest.mark.parametrize("key", YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"]["train"]["params"])
def test_run_identity_changes_with_every_parameter_of_the_stage(project, accelerated, key):
    """A run with another value may train a model of another shape, which the checkpoints do not fit."""
    before = params(model=tiny_task.FINE_TUNED)
    after = params(**{"model": tiny_task.FINE_TUNED, **CHANGES[key]})
    accelerator = create_accelerator(before)
    assert run_identity(before, accelerator, []) != run_identity(after, accelerator, [])


def names(folder):
    return [path.name for path in sorted(folder.glob("step-*"))]


def test_best_checkpoint_is_kept_besides_the_newest(stopped):
    """A run that resumes from any checkpoint needs the best weights up to that step."""
    kept = names(stopped(metric="loss", evaluate_every_steps=1, checkpoint_every_steps=3, learning_rate=30.0))
    assert kept[-1] == "step-00000015"
    assert len(kept) == 2


def test_training_lock_excludes_a_second_training(project, accelerated, monkeypatch):
    accelerator = create_accelerator(tiny_task.params())
    monkeypatch.setattr(checkpoints, "LOCK_TIMEOUT", 0.3)
    with (
        training_lock(accelerator, project / "key"),
        pytest.raises(StageError, match="Another process is already training this model"),
        training_lock(accelerator, project / "key"),
    ):
        pass
    with training_lock(accelerator, project / "key"):
        pass
