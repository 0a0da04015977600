"""The first computation of a process has the bits of each later one."""

import os

import pytest
import torch

from tuneline.model.linear.pooled_classifier import start_threads

PROCESSES = 6_000
"""Without ``start_threads``, some three of them differ."""


@pytest.mark.slow
def test_first_computation_of_a_process_has_the_bits_of_the_next():
    batch = torch.linspace(-5, 5, 64 * 256).reshape(64, 256)
    for _ in range(PROCESSES):
        child = os.fork()
        if child == 0:
            start_threads(2)
            os._exit(not torch.equal(torch.tanh(batch), torch.tanh(batch)))
        _, status = os.waitpid(child, 0)
        assert status == 0, "half of the rows differ"
