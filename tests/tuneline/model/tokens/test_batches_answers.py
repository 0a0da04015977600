import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tuneline.model.tokens.batches import document_tensor, document_values

VALUES = np.array([[1, 8], [3, 2], [5, 5], [0, 4], [2, 1], [4, 1]], dtype=np.float32)
WINDOWS = np.array([2, 1, 3])


@pytest.mark.parametrize(
    ("answer", "expected"), [("mean", [[2, 5], [5, 5], [2, 2]]), ("max", [[3, 8], [5, 5], [4, 4]])]
)
def test_answer_of_a_document_is_of_its_windows_only(answer, expected):
    assert document_values(VALUES, WINDOWS, answer).tolist() == expected
    assert document_values(VALUES, WINDOWS, answer).dtype == np.float32


@given(
    windows=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    answer=st.sampled_from(["mean", "max", None]),
    seed=st.integers(0, 99),
)
def test_training_and_prediction_give_the_same_answer(windows, answer, seed):
    values = np.random.default_rng(seed).normal(size=(sum(windows), 3)).astype(np.float32)
    counts = np.array(windows)
    tensor = document_tensor(torch.from_numpy(values), counts, answer)
    np.testing.assert_allclose(tensor.numpy(), document_values(values, counts, answer), rtol=1e-5, atol=1e-6)
