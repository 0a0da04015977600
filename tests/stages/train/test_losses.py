"""The losses of rows, and their weights."""

import pytest
import torch

from stages.train.losses import balanced_weights, row_losses, total_weight, weighted
from tests.tuneline.tasks.label_sets import random_rows
from tuneline.runtime.errors import ParamsError
from tuneline.tasks import Multilabel

TASK = Multilabel(("angry", "billing", "technical"))


def test_loss_is_the_binary_cross_entropy_of_torch_with_weights_of_the_labels_that_rows_have():
    labels, logits = random_rows(8)
    weight = torch.tensor([5.0, 1.0, 1.0])
    losses = row_losses(TASK, torch.from_numpy(logits), torch.from_numpy(labels), weight, 0.0)
    expected = torch.nn.BCEWithLogitsLoss(pos_weight=weight, reduction="none")
    assert torch.allclose(
        losses, expected(torch.from_numpy(logits), torch.from_numpy(labels).float()).mean(1)
    )
    assert total_weight(TASK, labels, weight.numpy()) == 8


def test_smoothed_targets_are_between_the_label_and_a_half():
    (loss,) = row_losses(TASK, torch.full((1, 3), 50.0), torch.ones((1, 3)), None, 0.2)
    assert float(loss) == pytest.approx(0.1 * 50, rel=1e-3)


def test_balanced_weights_give_rows_with_and_without_a_label_the_same_total():
    labels, _ = random_rows()
    weights = balanced_weights(TASK, labels)
    assert weights * labels.sum(axis=0) == pytest.approx((1 - labels).sum(axis=0))
    assert balanced_weights(TASK, labels * [1, 1, 0])[2] == 1.0


def test_loss_of_the_user_cannot_be_weighted():
    with pytest.raises(ParamsError, match=r"train\.class_weights"):
        weighted(TASK, torch.ones(2), torch.ones((2, 3)), torch.ones(3))
