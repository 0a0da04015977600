import numpy as np
import pytest
import torch

from tests.tuneline.training import tiny_task


def loss_of(outcome):
    loader = outcome.state.validation_loader
    rows = np.arange(len(loader.split))
    outcome.model.eval()
    with torch.no_grad():
        logits = outcome.model(**loader.inputs(rows)).logits
    return torch.nn.functional.cross_entropy(logits, loader.labels(rows)).item()


@pytest.mark.parametrize("keep", ["best", "last"])
def test_keep_selects_the_best_or_the_last_weights(trained, keep):
    """A learning rate that explodes at the end of the warmup makes the last evaluation the worst."""
    settings = {"learning_rate": 3.0, "warmup_ratio": 0.9, "metric": "loss"}
    outcome = trained(tiny_task.params(tiny_task.WITHOUT_DROPOUT, keep=keep, epochs=4, **settings))
    progress = outcome.state.progress
    assert progress.best_step < progress.step
    selected = progress.best if keep == "best" else progress.evaluated[-1]
    outcome.model.load_state_dict(outcome.weights)
    assert loss_of(outcome) == pytest.approx(selected.loss, abs=1e-5)


def test_seed_of_the_training_replaces_that_of_the_pipeline(trained):
    """The tiny task has seed 3. With another one, the new weights and the order of the examples differ."""

    def first_losses(**train):
        return [
            row.loss
            for row in trained(tiny_task.params(max_steps=3, epochs=None, **train)).state.progress.logged
        ]

    assert first_losses(seed=3) == first_losses()
    assert first_losses(seed=4) != first_losses()
