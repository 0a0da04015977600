"""Evaluations between the steps, and the trial before them: they change nothing in the training, and fit into
memory by themselves."""

import shutil

import pytest
import torch

from tests.tuneline.training import tiny_task
from tuneline.training import loop


def same_weights(first, second):
    return all(torch.equal(first.weights[name], second.weights[name]) for name in first.weights)


def test_trial_of_an_evaluation_before_the_first_step_does_not_change_the_training(
    project, trained, monkeypatch
):
    """With dropout and early stopping."""
    settings = tiny_task.params(epochs=2, early_stopping={"patience": 2})
    outcome = trained(settings)
    assert [row.step for row in outcome.state.progress.evaluated] == [8, 16]
    shutil.rmtree(project / "checkpoints")  # or it would resume
    monkeypatch.setattr(loop, "try_evaluation", lambda state: None)
    without = trained(settings)
    assert same_weights(outcome, without)
    assert outcome.state.progress.evaluated == without.state.progress.evaluated


@pytest.mark.promise("out-of-memory")
def test_out_of_memory_in_an_evaluation_halves_its_batch_before_the_first_step(
    project, trained, memory_for, capsys
):
    expected = trained(tiny_task.params(tiny_task.WITHOUT_DROPOUT, micro_batch_size=8))
    shutil.rmtree(project / "checkpoints", ignore_errors=True)  # or it would resume
    capsys.readouterr()
    memory_for(16, training=False)
    outcome = trained(tiny_task.params(tiny_task.WITHOUT_DROPOUT, micro_batch_size=8))
    assert (outcome.state.evaluation_batch_size, outcome.state.micro_batch_size) == (16, 2)
    output = capsys.readouterr().out
    assert output.index("retrying with micro_batch_size 2") < output.index("train: step 8:")
    assert outcome.state.progress.best.loss == pytest.approx(expected.state.progress.best.loss, abs=1e-5)
