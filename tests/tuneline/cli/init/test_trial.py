import time
from dataclasses import replace

import pytest
import torch

from tests.tuneline.cli.init.tiny_checkpoint import CONFIG
from tuneline.cli.init import trial
from tuneline.cli.init.trial import TrialResult, TrialSpec, batch_lengths, run_trial
from tuneline.core.machine import computes_bf16

SPEC = TrialSpec(CONFIG, 3, 4, None, [8, 12, 16], cpu=True)


def test_lengths_are_those_of_batches_of_similar_rows():
    assert batch_lengths([3, 4, 9, 20, 30], max_length=16, rows=2) == [4, 16, 16]


def test_batches_of_long_rows_are_divided_by_their_tokens():
    spec = TrialSpec(CONFIG, 3, 16, 400, [8], cpu=True)
    assert [spec.rows_at_once(length) for length in (8, 25, 100, 401)] == [16, 16, 4, 1]
    assert SPEC.rows_at_once(10**6) == 4


@pytest.mark.slow
@pytest.mark.parametrize("labels", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_trial_measures_the_architecture_in_a_process_of_its_own(labels):
    result = run_trial(TrialSpec(CONFIG, labels, 4, 32, [8, 12, 16], cpu=True))
    assert isinstance(result, TrialResult)
    assert result.device.startswith("CPU")
    assert result.step_seconds(2) > 2 * result.row_seconds > 0


def test_trial_does_not_count_the_time_of_other_programs():
    """A thread that sleeps, or waits for its turn, uses no processor time."""
    seconds, result = trial._seconds(lambda: time.sleep(0.5), torch.device("cpu"))
    assert seconds < 0.1
    assert result is None


@pytest.mark.slow
def test_trial_computes_in_bf16_where_the_training_will():
    result = run_trial(replace(SPEC, bf16=True))
    assert isinstance(result, TrialResult)
    assert result.device.endswith(", bf16") == computes_bf16()


def test_trial_that_fails_gives_the_reason():
    assert "Unrecognized model identifier: none" in run_trial(
        TrialSpec({"model_type": "none"}, 2, 4, None, [8], cpu=True)
    )


def test_trial_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(trial, "TIMEOUT", 0.01)
    assert run_trial(SPEC) == "it took more than 0.01 seconds"


@pytest.mark.slow
def test_model_that_does_not_fit_into_memory_is_not_made():
    huge = {**CONFIG, "hidden_size": 65536, "num_hidden_layers": 64, "intermediate_size": 262144}
    message = run_trial(TrialSpec(huge, 3, 4, None, [8], cpu=True))
    assert "weights and optimizer need" in message
