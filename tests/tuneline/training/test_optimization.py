from typing import get_args

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers import get_scheduler

from tests.tuneline.training import tiny_task
from tuneline.core.params.train import Schedule
from tuneline.model.tasks import task_with_names
from tuneline.model.tokens.tokenized_splits import TokenizedSplit
from tuneline.training.losses import Loss
from tuneline.training.optimization import (
    build_schedule,
    class_weights,
    parameter_groups,
)


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Embedding(3, 4))


def test_weight_decay_applies_to_matrices_and_not_to_vectors(model):
    decayed, kept = parameter_groups(model, 0.1)
    assert [parameter.ndim for parameter in decayed["params"]] == [2, 2]
    assert [parameter.ndim for parameter in kept["params"]] == [1, 1, 1]
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.1, 0.0)


@pytest.mark.parametrize("name", get_args(Schedule))
def test_schedule_is_that_of_transformers_with_a_warmup(name):
    optimizers = [torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=5e-3) for _ in range(2)]
    ours = build_schedule(optimizers[0], tiny_task.params(schedule=name, warmup_ratio=0.25).train, 16)
    reference = "constant_with_warmup" if name == "constant" else name
    expected = get_scheduler(reference, optimizers[1], 4, 16)
    for _ in range(16):
        assert ours.get_last_lr() == expected.get_last_lr()
        for optimizer, schedule in zip(optimizers, (ours, expected), strict=True):
            optimizer.step()
            schedule.step()


@pytest.mark.parametrize(("steps", "evaluated"), [(5, [5]), (11, [8, 11])])
def test_max_steps_may_end_the_run_within_an_epoch(trained, steps, evaluated):
    outcome = trained(tiny_task.params(epochs=None, max_steps=steps))
    assert outcome.state.progress.step == steps
    assert [row.step for row in outcome.state.progress.evaluated] == evaluated


LOGITS = torch.tensor([[2.0, 0.5, -1.0], [0.1, 0.2, 0.3], [-1.0, 3.0, 0.0], [0.0, 0.0, 4.0]])


LABELS = np.array([0, 2, 1, 1])


@pytest.mark.parametrize(
    ("smoothing", "weights"), [(0.0, None), (0.2, None), (0.0, np.array([1.0, 2.0, 0.5], dtype=np.float32))]
)
def test_loss_over_total_weight_equals_the_mean_of_torch(smoothing, weights):
    loss = Loss(task_with_names("abc"), label_smoothing=smoothing, class_weights=weights)
    labels = torch.from_numpy(LABELS)
    ours = loss.per_example(LOGITS, labels).sum() / loss.total_weight(LABELS)
    expected = functional.cross_entropy(
        LOGITS, labels, None if weights is None else torch.from_numpy(weights), label_smoothing=smoothing
    )
    assert ours.item() == pytest.approx(expected.item(), rel=1e-6)


def split(labels, names=tiny_task.NAMES):
    count = len(labels)
    return TokenizedSplit(
        {"input_ids": np.zeros(count, dtype=np.int32)},
        np.arange(count + 1),
        np.array(labels),
        task_with_names(names),
    )


def test_balanced_class_weights_give_each_class_the_same_total():
    counts = np.array([6, 3, 1])
    settings = tiny_task.params(class_weights="balanced").train
    weights = class_weights(settings, split(np.repeat([0, 1, 2], counts)))
    assert (weights * counts).tolist() == pytest.approx([10 / 3] * 3)


def test_class_weights_are_set_by_name_and_default_to_1():
    settings = tiny_task.params(class_weights={"technical": 2.5}).train
    assert class_weights(settings, split([0, 1, 2])).tolist() == [1.0, 1.0, 2.5]
