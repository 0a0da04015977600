"""The losses of rows, and their weights."""

import numpy as np
import pytest
import torch

from tests.tuneline.model.tasks.label_sets import random_rows
from tuneline.model.tasks import Classification, Multilabel
from tuneline.training.losses import Loss, balanced_weights

TASK = Multilabel(("angry", "billing", "technical"))


def test_loss_is_the_binary_cross_entropy_of_torch_with_weights_of_the_labels_that_rows_have():
    labels, logits = random_rows(8)
    weight = torch.tensor([5.0, 1.0, 1.0])
    loss = Loss(TASK, class_weights=weight.numpy())
    losses = loss.per_example(torch.from_numpy(logits), torch.from_numpy(labels))
    expected = torch.nn.BCEWithLogitsLoss(pos_weight=weight, reduction="none")
    assert torch.allclose(
        losses, expected(torch.from_numpy(logits), torch.from_numpy(labels).float()).mean(1)
    )
    assert loss.total_weight(labels) == 8


def test_balanced_weights_give_rows_with_and_without_a_label_the_same_total():
    labels, _ = random_rows()
    weights = balanced_weights(TASK, labels)
    assert weights * labels.sum(axis=0) == pytest.approx((1 - labels).sum(axis=0))
    assert balanced_weights(TASK, labels * [1, 1, 0])[2] == 1.0


@pytest.mark.parametrize("kind", [Classification, Multilabel])
def test_loss_of_a_sure_row_is_smallest_at_its_smoothed_target_whatever_its_class_weighs(kind):
    task = kind(("common", "rare"))
    smoothing = 0.1
    loss = Loss(task, smoothing, class_weights=np.array([0.5, 50.0], np.float32))
    labels = torch.tensor([0, 1])
    if kind is Multilabel:
        labels = torch.eye(2, dtype=torch.int8)
    logits = torch.zeros(2, 2, requires_grad=True)
    optimizer = torch.optim.LBFGS([logits], max_iter=200, line_search_fn="strong_wolfe")

    def step():
        optimizer.zero_grad()
        total = loss.per_example(logits, labels).sum()
        total.backward()
        return total

    optimizer.step(step)
    probabilities = logits.softmax(1) if kind is Classification else logits.sigmoid()
    expected = torch.eye(2) * (1 - smoothing) + smoothing / 2
    assert torch.allclose(probabilities, expected, atol=1e-3)
