import pytest

from tests.tuneline.training import tiny_task
from tuneline.core.runtime.errors import ParamsError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epochs": 2, "max_steps": 5}, "train.epochs: give one of"),
        ({"epochs": None}, "train.epochs: give one of"),
        ({"schedule": "linnear"}, "train.schedule: "),
        (
            {"mixed_precision": "auto", "launch": "fsdp"},
            "train.mixed_precision: auto is for the launch auto and cpu, and launch is fsdp",
        ),
        ({"micro_batch_size": 3}, "train.micro_batch_size: 3 does not divide global_batch_size 8"),
    ],
)
def test_invalid_or_contradictory_train_params_are_refused(given, message):
    with pytest.raises(ParamsError, match=message):
        tiny_task.params(**given)
