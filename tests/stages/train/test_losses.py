"""The losses of rows, and their weights."""

import pytest
import torch

from stages.train.losses import Loss, balanced_weights
from tests.tuneline.tasks.label_sets import random_rows
from tuneline.tasks import Multilabel

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
