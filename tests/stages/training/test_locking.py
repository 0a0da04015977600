import pytest

from stages.errors import StageError
from stages.training import locking
from stages.training.devices import start
from stages.training.locking import locked
from tests.stages.training import made


def test_two_trainings_in_one_folder_exclude_each_other(project, accelerated, monkeypatch):
    accelerator = start(made.params().train)
    monkeypatch.setattr(locking, "PATIENCE", 0.3)
    with locked(accelerator), pytest.raises(StageError, match=r"Process \d+ trains in this folder already"), locked(accelerator):
        pass
    with locked(accelerator):
        pass
