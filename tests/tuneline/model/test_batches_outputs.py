import numpy as np
import torch

from tuneline.model.batches import RowWindows, TokenizedRows, compute_outputs

VALUES = {"input_ids": np.array([5, 6, 7, 8, 9, 1], np.int32), "attention_mask": np.ones(6, np.int8)}
OFFSETS = np.array([0, 3, 4, 6])


def sums(inputs):
    """A model: the sum of the ids of each row without their padding, and the number of its tokens."""
    assert not torch.is_grad_enabled()
    mask = inputs["attention_mask"]
    return torch.stack([(inputs["input_ids"] * mask).sum(1), mask.sum(1)], dim=1)


def outputs(rows, batch_size):
    out = np.empty((len(rows), 2), np.float32)
    return compute_outputs(
        sums, rows, out, pad_token_id=99, device=torch.device("cpu"), batch_size=batch_size
    ).tolist()


def test_outputs_are_in_the_order_of_the_rows_whatever_the_batches():
    rows = TokenizedRows(VALUES, OFFSETS)
    assert outputs(rows, 1) == outputs(rows, 2) == outputs(rows, 3) == [[18, 3], [8, 1], [10, 2]]


def test_windows_of_a_row_give_one_answer():
    windows = RowWindows(np.array([0, 2, 3]), np.array([0, 3, 4, 6]), "mean")
    rows = TokenizedRows(VALUES, np.array([0, 4, 6]), windows=windows)
    assert outputs(rows, 2) == [[13, 2], [10, 2]]
