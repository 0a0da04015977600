"""The threads with which torch computes on a CPU."""

import torch


def start_threads(number: int) -> None:
    """Let torch compute with a number of threads, always with the same bits.

    The vector functions of MKL prepare themselves in their first call. If several threads make it at once,
    one of them can compute with less accuracy: in about 1 of 2,000 processes, half of the rows of the first
    batch had logits that differed by 1e-4. So one thread makes the first call.
    """
    torch.set_num_threads(number)
    torch.tanh(torch.zeros(1))
