"""What a sweep does next is a function of its record."""

import random

import pytest

from tuneline.runtime.errors import StageError
from tuneline.sweeps.record import SweepRecord, check_errors, next_tasks
from tuneline.sweeps.space import Sweep

TOTAL = 90


def started(configurations, seeds=(None,), **more):
    sweep = Sweep.model_validate(
        {"parameters": {"train.epochs": {"choice": [1]}}, "trials": configurations, **more}
    )
    record = SweepRecord(sweep={}, inputs="", params="", metric="accuracy", greater_is_better=True, threads=1)
    return sweep, record.with_draws([{"train.epochs": number} for number in range(configurations)], seeds)


def trained(record, task, quality):
    """The record after a task: the metric of a trial grows with its steps, up to its quality."""
    trial = next(one for one in record.trials if one.number == task.trial.number)
    steps = TOTAL if task.pause is None else task.pause
    value = quality(trial) * (1 - 1 / (1 + steps))
    changes = {
        "steps": steps,
        "total_steps": TOTAL,
        "rungs": (*trial.rungs, value) if task.pause else trial.rungs,
    }
    return record.with_trial(
        trial.model_copy(update={**changes, **({"metric": value} if steps >= TOTAL else {})})
    )


def run(sweep, record, quality, order=lambda tasks: tasks[0]):
    """Do all tasks, one at a time, in some order; return the record and the pauses of the tasks."""
    pauses = []
    while tasks := next_tasks(sweep, record):
        task = order(tasks)
        pauses.append(task.pause)
        record = trained(record, task, quality)
    return record, pauses


def by_number(trial):
    return trial.configuration / 100


def test_a_third_goes_on_at_each_rung_for_three_times_the_steps():
    sweep, record = started(27, halving={"factor": 3, "first_steps": 10})
    record, pauses = run(sweep, record, by_number)
    assert [pauses.count(step) for step in (10, 30, 90)] == [27, 9, 0]
    assert pauses.count(None) == 3  # 90 steps are all
    assert [trial.configuration for trial in record.trials if trial.is_finished] == [24, 25, 26]
    assert sum(trial.steps for trial in record.trials) == 18 * 10 + 6 * 30 + 3 * 90


def test_the_last_configuration_is_trained_to_the_end():
    sweep, record = started(4, halving={"factor": 2, "first_steps": 5})
    record, _ = run(sweep, record, by_number)
    assert [trial.steps for trial in record.trials] == [5, 5, 10, 90]


@pytest.mark.parametrize("seed", range(5))
def test_result_does_not_depend_on_the_order_of_the_trials(seed):
    sweep, record = started(9, seeds=(1, 2), halving={"first_steps": 10})
    expected, _ = run(sweep, record, by_number)
    shuffled, _ = run(sweep, record, by_number, random.Random(seed).choice)
    assert shuffled == expected


def test_seeds_of_a_configuration_go_on_together():
    sweep, record = started(3, seeds=(1, 2, 3), halving={"first_steps": 10})
    values = {0: (0.9, 0.1, 0.1), 1: (0.5, 0.5, 0.5), 2: (0.4, 0.4, 0.4)}
    record, _ = run(
        sweep, record, lambda trial: values[trial.configuration][trial.parameters["train.seed"] - 1]
    )
    assert [trial.configuration for trial in record.trials if trial.is_finished] == [1, 1, 1]


def test_a_configuration_of_which_a_seed_failed_does_not_go_on():
    sweep, record = started(3, seeds=(1, 2), halving={"first_steps": 10})
    best = record.trials[-1]
    record, _ = run(sweep, record.with_trial(best.model_copy(update={"error": "NaN"})), by_number)
    assert {trial.configuration for trial in record.trials if trial.is_finished} == {1}


def test_lower_is_better_for_a_loss():
    sweep, record = started(3, halving={"first_steps": 10})
    record, _ = run(sweep, record.model_copy(update={"greater_is_better": False}), by_number)
    assert [trial.configuration for trial in record.trials if trial.is_finished] == [0]


def test_without_halving_all_are_trained_to_the_end():
    sweep, record = started(4)
    record, pauses = run(sweep, record, by_number)
    assert pauses == [None] * 4


def test_while_configurations_are_drawn_none_goes_on():
    sweep, record = started(1, halving={"first_steps": 10})
    assert [task.pause for task in next_tasks(sweep, record, drawing=True)] == [10]
    record = trained(record, next_tasks(sweep, record, drawing=True)[0], by_number)
    assert next_tasks(sweep, record, drawing=True) == []
    assert [task.pause for task in next_tasks(sweep, record)] == [None]


def failed(record, *errors):
    for trial, error in zip(record.trials, errors, strict=False):
        record = record.with_trial(trial.model_copy(update={"error": error}))
    return record


def test_sweep_stops_when_the_first_three_trials_fail_in_the_same_way():
    _, record = started(5)
    check_errors(failed(record, "Step 3: loss nan", "Step 5: loss nan"))
    check_errors(failed(record, "Step 3: loss nan", "Step 5: loss nan", "Out of memory"))
    check_errors(failed(started(2)[1], "Step 3: loss nan", "Step 5: loss nan"))
    with pytest.raises(StageError, match="Step 3: loss nan"):
        check_errors(failed(record, "Step 3: loss nan", "Step 5: loss nan", "Step 1: loss nan"))
