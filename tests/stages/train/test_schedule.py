from typing import get_args

import pytest
import torch
from transformers import SchedulerType, get_scheduler

from stages.train.optimization import STEPPED_BY_VALIDATION_LOSS, build_schedule, total_steps, warmup_steps
from tests.stages.train import made
from tuneline.errors import ParamsError
from tuneline.params.train import Schedule

OPTIONS = {
    "warmup_stable_decay": {"num_decay_steps": 4},
    "cosine_with_min_lr": {"min_lr": 1e-5},
    "cosine_warmup_with_min_lr": {"min_lr": 1e-5},
}
NAMES = [name.value for name in SchedulerType]


def optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=5e-3)


def test_every_schedule_of_transformers_can_be_named():
    assert sorted(get_args(Schedule)) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_schedule_runs_once_per_optimizer_step(trained, name):
    """The learning rates are those of the schedule alone, stepped once for each of 16 steps."""
    outcome = trained(made.params(schedule=name, schedule_options=OPTIONS.get(name, {}), warmup_ratio=0.25))
    rates = [row.learning_rate for row in outcome.state.progress.logged]
    if name in STEPPED_BY_VALIDATION_LOSS:
        assert len(set(rates[:8])) == 1, "stepped by the validation loss, after an epoch"
        return
    reference = optimizer()
    schedule = get_scheduler(name, reference, 4, 16, OPTIONS.get(name))
    expected = []
    for _ in range(16):
        expected.append(reference.param_groups[0]["lr"])
        reference.step()
        schedule.step()
    assert rates == pytest.approx(expected)


def test_a_plateau_lowers_the_rate(trained):
    outcome = trained(
        made.params(schedule="reduce_lr_on_plateau", schedule_options={"patience": 0, "factor": 0.1, "threshold": 10.0}, epochs=4)
    )
    rates = [row.learning_rate for row in outcome.state.progress.logged]
    assert rates[-1] < rates[0]


def test_options_that_a_schedule_does_not_take_are_named():
    settings = made.params(schedule="linear", schedule_options={"num_cycles": 2}).train
    with pytest.raises(ParamsError, match=r"train.schedule_options: the schedule 'linear' does not accept .*num_cycles"):
        build_schedule(optimizer(), settings, 10)


@pytest.mark.parametrize(
    ("given", "steps"), [({"warmup_ratio": 0.1}, 2), ({"warmup_ratio": None, "warmup_steps": 7}, 7), ({"warmup_ratio": None}, 0)]
)
def test_warmup_is_a_ratio_or_a_number(given, steps):
    assert warmup_steps(made.params(**given).train, 16) == steps


def test_steps_are_epochs_of_groups_or_given():
    assert total_steps(made.params(epochs=3).train, 8) == 24
    assert total_steps(made.params(epochs=None, max_steps=5).train, 8) == 5


@pytest.mark.parametrize(("steps", "evaluated"), [(5, [5]), (8, [8]), (11, [8, 11])])
def test_a_number_of_steps_may_end_within_an_epoch(trained, steps, evaluated):
    outcome = trained(made.params(epochs=None, max_steps=steps))
    assert outcome.state.progress.step == steps
    assert [row.step for row in outcome.state.progress.evaluated] == evaluated


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
def test_contradictions_are_refused(given, message):
    with pytest.raises(ParamsError, match=message):
        made.params(**given)
