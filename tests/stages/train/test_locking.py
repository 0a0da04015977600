import pytest

from stages.train import locking
from stages.train.devices import start
from stages.train.locking import locked
from tests.stages.train import made
from tuneline.errors import StageError


def test_two_trainings_in_one_folder_exclude_each_other(project, accelerated, monkeypatch):
    accelerator = start(made.params().train)
    monkeypatch.setattr(locking, "PATIENCE", 0.3)
    with locked(accelerator), pytest.raises(StageError, match=r"Process \d+ trains in this folder already"), locked(accelerator):
        pass
    with locked(accelerator):
        pass
