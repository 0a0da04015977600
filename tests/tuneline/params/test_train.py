import pytest

from tests.stages.train import tiny_task
from tuneline.errors import ParamsError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"warmup_ratio": 0.1, "warmup_steps": 5}, "train.warmup_ratio: give one of"),
        ({"epochs": 2, "max_steps": 5}, "train.epochs: give one of"),
        ({"epochs": None}, "train.epochs: give one of"),
        ({"schedule": "linnear"}, "train.schedule: "),
        ({"micro_batch_size": 3}, "train.micro_batch_size: 3 does not divide global_batch_size 8"),
        ({"lora": {"rank": 2}, "freeze": ["embeddings"]}, "train.freeze: with lora"),
        ({"optimizer": "lion"}, "train.optimizer"),
        ({"betas": [0.9]}, "train.betas"),
    ],
)
def test_invalid_or_contradictory_train_params_are_refused(given, message):
    with pytest.raises(ParamsError, match=message):
        tiny_task.params(**given)
