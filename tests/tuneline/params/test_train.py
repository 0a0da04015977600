import pytest

from tests.stages.train import tiny_task
from tuneline.params.train import WITHOUT_WARMUP
from tuneline.runtime.errors import ParamsError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"warmup_ratio": 0.1, "warmup_steps": 5}, "train.warmup_ratio: give one of"),
        ({"epochs": 2, "max_steps": 5}, "train.epochs: give one of"),
        ({"epochs": None}, "train.epochs: give one of"),
        ({"schedule": "linnear"}, "train.schedule: "),
        ({"schedule": "constant"}, "train.warmup_ratio: the schedule 'constant' has no warmup"),
        (
            {"schedule": "greedy", "warmup_ratio": None, "warmup_steps": 5},
            "train.warmup_steps: the schedule 'greedy' has no warmup",
        ),
        (
            {"mixed_precision": "auto", "launch": "gpu"},
            "train.mixed_precision: auto is for the launch auto and cpu, and launch is gpu",
        ),
        ({"micro_batch_size": 3}, "train.micro_batch_size: 3 does not divide global_batch_size 8"),
        ({"lora": {"rank": 2}, "freeze": ["embeddings"]}, "train.freeze: with lora"),
        ({"optimizer": "lion"}, "train.optimizer"),
        ({"betas": [0.9]}, "train.betas"),
    ],
)
def test_invalid_or_contradictory_train_params_are_refused(given, message):
    with pytest.raises(ParamsError, match=message):
        tiny_task.params(**given)


@pytest.mark.parametrize("schedule", WITHOUT_WARMUP)
@pytest.mark.parametrize(
    "warmup", [{"warmup_ratio": None}, {"warmup_ratio": 0.0}, {"warmup_ratio": None, "warmup_steps": 0}]
)
def test_schedule_without_warmup_is_accepted_without_one(schedule, warmup):
    assert tiny_task.params(schedule=schedule, **warmup).train.schedule == schedule
