import pytest

from stages.train import checkpoints
from stages.train.checkpoints import training_lock
from stages.train.devices import create_accelerator
from tests.stages.train import tiny_task
from tuneline.runtime.errors import StageError

FILES = {
    "model.safetensors",
    "optimizer.bin",
    "progress.json",
    "random_states_0.pkl",
    "scheduler.bin",
}


@pytest.fixture
def stopped(project, trained, monkeypatch):
    """Return a function that trains 16 steps and returns the checkpoint folder as a kill before publishing
    would leave it."""
    return lambda **train: trained(tiny_task.params(**train)).state.checkpoints.folder


def names(folder):
    return [path.name for path in sorted(folder.glob("step-*"))]


def test_checkpoint_contains_the_complete_training_state(stopped):
    folder = stopped(keep="last", checkpoint_every_steps=16)
    assert {path.name for path in (folder / "step-00000016").iterdir()} == FILES


def test_only_the_newest_checkpoints_are_kept(stopped):
    assert names(stopped(keep="last", checkpoint_every_steps=3)) == ["step-00000012", "step-00000015"]


def test_best_checkpoint_is_kept_besides_the_newest(stopped):
    """A run that resumes from any checkpoint needs the best weights up to that step."""
    kept = names(stopped(metric="loss", evaluate_every_steps=1, checkpoint_every_steps=3, learning_rate=30.0))
    assert kept[-2:] == ["step-00000012", "step-00000015"]
    assert len(kept) == 3


def test_checkpoints_are_not_written_without_an_interval(stopped):
    assert names(stopped(keep="last", checkpoint_every_steps=None)) == []


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
