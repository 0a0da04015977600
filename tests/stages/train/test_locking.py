import pytest

from stages.train import checkpoints
from stages.train.checkpoints import training_lock
from stages.train.devices import create_accelerator
from tests.stages.train import made
from tuneline.errors import StageError


def test_two_trainings_in_one_folder_exclude_each_other(project, accelerated, monkeypatch):
    accelerator = create_accelerator(made.params().train)
    monkeypatch.setattr(checkpoints, "LOCK_TIMEOUT", 0.3)
    with (
        training_lock(accelerator),
        pytest.raises(StageError, match=r"Process \d+ is already training in this folder"),
        training_lock(accelerator),
    ):
        pass
    with training_lock(accelerator):
        pass
