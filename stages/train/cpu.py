"""Shorter training steps on the CPU: dropout masks, attention, linear layers, and threads that wait for each other.

docs/benchmarks.md has what each of them saves.
"""

import contextlib
import math
import os
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from tuneline.core.machine import processor_words


@contextlib.contextmanager
def fast_dropout_masks() -> Iterator[None]:
    """Until the block ends, draw dropout masks on the CPU with numpy, also those of attention.

    torch draws them with one thread, from 53 bits of a Mersenne twister for each element, which takes a tenth of a training step. 16 bits
    of SFC64 take a tenth of that. torch's generator draws its seed, so masks follow from ``torch.manual_seed``; the rate is rounded to a
    multiple of 1/65536.
    """
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel", UserWarning)
        library.impl("bernoulli_.float", _draw, "CPU")
    try:
        yield
    finally:
        library._destroy()


def _draw(values: Tensor, p: float = 0.5, *, generator: torch.Generator | None = None) -> Tensor:
    """Fill a tensor with 1, with probability ``p``, and 0, as ``Tensor.bernoulli_``."""
    seed = int(torch.empty((), dtype=torch.int64).random_(generator=generator))
    words = np.random.SFC64(seed).random_raw(-(-values.numel() // 4))
    bits = torch.from_numpy(words.view(np.int16)[: values.numel()]).view(values.shape)
    threshold = round(p * 2**16) - 2**15
    return values.fill_(1) if threshold == 2**15 else torch.lt(bits, threshold, out=values)


@contextlib.contextmanager
def fast_attention_dropout() -> Iterator[None]:
    """Until the block ends, models with the attention ``sdpa`` compute dropout of attention without torch's check for rows without tokens.

    With dropout, torch attends with single operations too, and looks in each layer for rows in which everything is masked.
    """
    AttentionInterface.register("sdpa", attend)
    try:
        yield
    finally:
        AttentionInterface.register("sdpa", sdpa_attention_forward)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Return scaled dot-product attention, shape ``(batch, tokens, heads, features)``, and no weights, as transformers does.

    What is not bidirectional self-attention in float32 with dropout on the CPU is left to transformers. Where all tokens are masked,
    a token attends to all of them alike, instead of to none: nothing reads its output.
    """
    plain = query.device.type == "cpu" and query.dtype == torch.float32 and key.shape[:2] == query.shape[:2]
    masked = attention_mask is not None and attention_mask.dtype == torch.bool
    bidirectional = masked or (attention_mask is None and not getattr(module, "is_causal", True))
    if not dropout or not plain or not bidirectional or any(option is not None for option in options.values()):
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options)
    scores = torch.matmul(query, key.transpose(2, 3)).mul_(query.shape[-1] ** -0.5 if scaling is None else scaling)
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    weights = functional.dropout(functional.softmax(scores, dim=-1), dropout)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), None


def onednn_is_faster() -> bool:
    """Return True if oneDNN multiplies float32 matrices faster than MKL, which torch uses: MKL uses AVX-512 on Intel's processors only."""
    words = processor_words()
    return torch.backends.cpu.get_cpu_capability().startswith("AVX512") and bool(words) and "GenuineIntel" not in words


class OneDnnLinear(nn.Linear):
    """A linear layer in float32 whose output and gradient of the input are computed by oneDNN."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name in nn.Linear
        """Return the output, shape ``(..., out_features)``."""
        product: Any = _OneDnnProduct.apply
        output: Tensor = product(input, self.weight, self.bias)
        return output


class _OneDnnProduct(torch.autograd.Function):
    """The gradient of the weight stays with MKL, which reads transposed operands as they are."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(values, weight)
        return _multiply(values, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        values, weight = ctx.saved_tensors
        needs_values, needs_weight, needs_bias = ctx.needs_input_grad
        rows = gradient.flatten(0, -2)
        return (
            _multiply(gradient, weight.t(), None) if needs_values else None,
            rows.t() @ values.flatten(0, -2) if needs_weight else None,
            rows.sum(0) if needs_bias else None,
        )


def _multiply(values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(values, weight, bias, "none", [], "")
    return product


def use_onednn(model: nn.Module) -> None:
    """Let the linear layers of a model compute with oneDNN. Names and values of the weights stay."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = OneDnnLinear


INTERVAL = 1.0
"""Seconds between two readings of the scheduler's statistics."""
THRESHOLD = 0.05
"""The cores count as shared if the main thread waits for one for more than this fraction of the time."""
IDLE_THREAD = "idle OpenMP team"
_STATISTICS = Path("/proc/self/schedstat")
"""Of the main thread (Linux): nanoseconds on a core, nanoseconds waiting for one, number of turns."""
_PER_THREAD = 2**16
"""Elements of a tensor for each thread that is to take part in filling it; torch gives a thread at least half as many."""


@contextlib.contextmanager
def short_waits_on_shared_cores() -> Iterator[None]:
    """Until the block ends, shorten the waits of OpenMP's threads while other programs use the cores.

    Does nothing for a single thread, and on systems without the statistics.
    """
    if torch.get_num_threads() == 1 or not _STATISTICS.exists():
        yield
        return
    ended = threading.Event()
    observer = threading.Thread(target=_observe, args=(ended,), name="contention", daemon=True)
    observer.start()
    try:
        yield
    finally:
        ended.set()
        observer.join()


def _observe(ended: threading.Event) -> None:
    """Start idle teams when the cores become shared, and end them when they no longer are."""
    with contextlib.ExitStack() as teams:
        active = False
        then, waited_before = time.monotonic(), _waited()
        while not ended.wait(INTERVAL):
            now, waited = time.monotonic(), _waited()
            shared = (waited - waited_before) / (now - then) > THRESHOLD
            then, waited_before = now, waited
            if shared and not active:
                for _ in range(teams_needed(torch.get_num_threads(), len(os.sched_getaffinity(0)))):
                    teams.enter_context(_idle_team())
            elif active and not shared:
                teams.close()
            active = shared


def _waited() -> float:
    """Return the seconds that the main thread has waited for a core since it started."""
    return int(_STATISTICS.read_text(encoding="ascii").split()[1]) / 1e9


def teams_needed(threads: int, cores: int) -> int:
    """Return how many more teams make libgomp manage more threads than there are cores. It does not count a team's first thread."""
    return max(math.ceil((cores + 1 - threads) / (threads - 1)), 1)


@contextlib.contextmanager
def _idle_team() -> Iterator[None]:
    """Keep a thread that has computed once: libgomp keeps its team of threads until it ends."""
    ended = threading.Event()

    def compute_and_sleep() -> None:
        torch.zeros(torch.get_num_threads() * _PER_THREAD).add_(1)
        ended.wait()

    thread = threading.Thread(target=compute_and_sleep, name=IDLE_THREAD, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
