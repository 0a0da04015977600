"""Dropout masks on the CPU from random bits of numpy, which take a tenth of the time of torch's."""

import contextlib
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

BITS = 16
"""Random bits for each element: a rate is rounded to a multiple of 1/65536."""


@contextlib.contextmanager
def fast_dropout_masks() -> Iterator[None]:
    """Until the block ends, draw dropout masks on the CPU with numpy, also in attention.

    torch draws them with one thread, from 53 bits of a Mersenne twister for each element, which takes a tenth
    of a training step. 16 bits of SFC64 take a tenth of that. torch's generator draws its seed, so masks
    follow from ``torch.manual_seed``.
    """
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    # torch warns when an operator of its own is replaced, which is what happens here
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel", UserWarning)
        library.impl("bernoulli_.float", _draw, "CPU")
    try:
        yield
    finally:
        library._destroy()


def _draw(values: Tensor, p: float = 0.5, *, generator: torch.Generator | None = None) -> Tensor:
    """Fill a tensor with 1, with probability ``p``, and 0, as ``Tensor.bernoulli_``."""
    bits = random_bits(values.shape, generator)
    limit = below(p)
    if limit == 2 ** (BITS - 1):  # too large for an int16, with which torch would compare
        return values.fill_(1)
    return torch.lt(bits, limit, out=values)


def random_bits(shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
    """Return random int16 numbers of a shape, uniform over all values; torch's generator draws their seed."""
    seed = int(torch.empty((), dtype=torch.int64).random_(generator=generator))
    count = math.prod(shape)
    words = np.random.SFC64(seed).random_raw(math.ceil(count / 4))  # a word of 64 bits has four numbers
    return torch.from_numpy(words.view(np.int16)[:count]).view(shape)


def below(probability: float) -> int:
    """Return the limit below which a random int16 is with a probability."""
    return int(round(probability * 2**BITS) - 2 ** (BITS - 1))
