import numpy as np
import pytest
import torch
from torch.nn import functional

from tuneline.training.losses import TEMPERATURE, DividedContrast, contrastive_loss

LABELS = torch.tensor([0, 1, 0, 2, 1, 0])


@pytest.fixture
def vectors():
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


def by_the_formula(vectors, labels):
    """Equation 2 of Khosla et al. 2020, one row after another; a class of one row has no term."""
    directions = [vector / vector.norm() for vector in vectors]
    rows = range(len(vectors))
    terms = []
    for row in rows:
        others = [other for other in rows if other != row]
        partners = [other for other in others if labels[other] == labels[row]]
        shares = torch.stack([directions[row] @ directions[other] / TEMPERATURE for other in others])
        logs = dict(zip(others, functional.log_softmax(shares, dim=0), strict=True))
        if partners:
            terms.append(-sum(logs[partner] for partner in partners) / len(partners))
    return torch.stack(terms).mean()


def test_loss_follows_the_formula(vectors):
    torch.testing.assert_close(contrastive_loss(vectors, LABELS), by_the_formula(vectors, LABELS))


@pytest.mark.parametrize("labels", [[0, 1, 2], [0]])
def test_batch_without_two_rows_of_a_class_has_no_loss_and_no_gradient(labels):
    vectors = torch.ones(len(labels), 4, requires_grad=True)
    loss = contrastive_loss(vectors, torch.tensor(labels))
    loss.backward()
    assert loss == 0
    assert not vectors.grad.any()


@pytest.mark.parametrize("parts", [[[0, 1, 2, 3, 4, 5]], [[4, 2], [], [0, 1, 5], [3]]])
def test_shares_of_a_divided_batch_add_up_to_its_loss_and_gradient(vectors, parts):
    whole = vectors.clone().requires_grad_()
    loss = contrastive_loss(whole, LABELS)
    loss.backward()

    numbers = np.array([40, 10, 20, 60, 50, 30])  # rows of a split, in any order
    contrast = DividedContrast.of(numbers, vectors.clone(), LABELS)
    divided = vectors.clone().requires_grad_()
    shares = [contrast.share(divided[part], numbers[part]) for part in parts]
    total = sum(shares)
    total.backward()
    torch.testing.assert_close(total, loss)
    torch.testing.assert_close(divided.grad, whole.grad)
