"""A short trial of training: a few real steps of the architecture with random weights, to estimate the cost.

``run_trial`` runs this module as a process of its own, which imports torch, prints a ``TrialResult`` and
ends: its memory is free again, and a failure, even for lack of memory, does not end ``tuneline init``.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import tuneline
from tuneline.core.machine import computes_bf16
from tuneline.runtime.terminal import say

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
SECONDS = 15.0
"""Time after which no further micro-batch is begun."""
TIMEOUT = 180
"""Seconds after which a trial is given up."""
QUANTILES = (0.5, 0.9, 0.1, 0.7, 0.3)
"""Batches to try, by their place among all batches in the order of length."""
BYTES_PER_PARAMETER = 16
"""Weight, gradient and two moments of Adam in float32."""


@dataclass(frozen=True)
class TrialSpec:
    """What to try: the contents of ``config.json``, the number of outputs, and the batches.

    Attributes:
        rows: Rows of a batch.
        tokens: Largest number of tokens of a micro-batch; a batch with more is divided. ``None``: no limit.
        lengths: Tokens of the longest row of each batch, ascending.
        cpu: Stay on the CPU even if there is another device.
        bf16: Compute in bf16 where the processor does so. A GPU always does if it can.
    """

    config: Mapping[str, Any]
    labels: int
    rows: int
    tokens: int | None
    lengths: Sequence[int]
    cpu: bool
    bf16: bool = False

    def rows_at_once(self, length: int) -> int:
        """Return the rows of a micro-batch whose longest row has ``length`` tokens."""
        if self.tokens is None:
            return self.rows
        return max(min(self.rows, self.tokens // length), 1)


@dataclass(frozen=True)
class TrialResult:
    """Mean seconds of a forward and backward pass of a model input, and seconds of a weight update.

    They are those of a machine without other work.
    """

    device: str
    row_seconds: float
    optimizer_seconds: float

    def step_seconds(self, rows: float) -> float:
        """Return the seconds of an optimizer step; a row with windows counts as so many rows."""
        return rows * self.row_seconds + self.optimizer_seconds


def batch_lengths(tokens: Sequence[int], max_length: int, rows: int) -> list[int]:
    """Return the tokens of the longest row of each batch, as training buckets rows by length.

    Args:
        tokens: Tokens of each row, ascending.
        max_length: Tokens to which a row is truncated.
        rows: Rows of a batch.
    """
    lengths = []
    for start in range(0, len(tokens), rows):
        longest = int(max(tokens[start : start + rows]))
        lengths.append(min(longest, max_length))
    return lengths


def run_trial(spec: TrialSpec) -> TrialResult | str:
    """Run a trial in a process of its own; return the result, or why there is none."""
    # this code first, whatever folder the command was started in
    code = Path(tuneline.__file__).parents[1]
    path = [str(code)]
    if os.environ.get("PYTHONPATH"):
        path.append(os.environ["PYTHONPATH"])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        # a thread that waits for another one, which has to share its core, would use processor time, too
        "OMP_WAIT_POLICY": "PASSIVE",
    }

    try:
        done = subprocess.run(
            [sys.executable, "-m", "tuneline.cli.init.trial"],
            input=json.dumps(asdict(spec)),
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {TIMEOUT} seconds"
    except OSError as error:
        return str(error.strerror)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        if lines:
            return lines[-1]
        return f"it was ended by signal {-done.returncode}"
    return TrialResult(**json.loads(done.stdout.splitlines()[-1]))


def measure_step(spec: TrialSpec) -> TrialResult:
    """Train a few micro-batches of random tokens.

    Raises:
        MemoryError: The model and its optimizer need more memory than there is.
    """
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    # Parameters are counted on the device "meta", where they take no memory.
    config = AutoConfig.for_model(**{**spec.config, "num_labels": spec.labels})
    classifier: Callable[[Any], torch.nn.Module] = AutoModelForSequenceClassification.from_config
    with torch.device("meta"):
        _check_memory(sum(weight.numel() for weight in classifier(config).parameters()))

    # model
    device = torch.device("cpu")
    if not spec.cpu and torch.accelerator.is_available():
        device = torch.accelerator.current_accelerator() or device
    model = classifier(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=device.type != "mps")
    is_bf16 = _trains_in_bf16(spec, device)
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=is_bf16)

    def step(length: int) -> int:
        rows = spec.rows_at_once(length)
        ids = torch.randint(0, config.vocab_size, (rows, length), device=device)
        labels = torch.randint(0, max(2, spec.labels), (rows,), device=device)
        if spec.labels == 1:  # a regression
            labels = labels.float()
        with autocast:
            outputs = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels)
        outputs.loss.backward()
        return rows

    # Not measured: the first pass allocates memory and selects kernels.
    step(spec.lengths[len(spec.lengths) // 2])
    optimizer.step()

    # measured
    row_seconds = _mean_seconds(step, spec.lengths, device)
    optimizer_seconds, _ = _seconds(optimizer.step, device)
    return TrialResult(_description(device, is_bf16), row_seconds, optimizer_seconds)


def _mean_seconds(step: Callable[[int], int], lengths: Sequence[int], device: "torch.device") -> float:
    """Measure a few lengths, and scale to the mean of all: the time of a pass grows with its tokens."""
    seconds = 0.0
    tokens = 0
    for quantile in QUANTILES:
        length = lengths[min(len(lengths) - 1, int(quantile * len(lengths)))]
        taken, rows = _seconds(partial(step, length), device)
        seconds += taken
        tokens += rows * length
        if seconds > SECONDS:
            break
    return seconds / tokens * sum(lengths) / len(lengths)


def _seconds(action: Callable[[], T], device: "torch.device") -> tuple[float, T]:
    """Return the seconds of an action, until its device has finished, and the result of the action.

    On a CPU, they are the processor time of this thread, which takes part in every operation: time that other
    programs have the processor is not counted.
    """
    import torch

    if device.type == "cpu":
        started = time.thread_time()
        result = action()
        return time.thread_time() - started, result

    started = time.perf_counter()
    result = action()
    getattr(torch, device.type).synchronize()
    return time.perf_counter() - started, result


def _trains_in_bf16(spec: TrialSpec, device: "torch.device") -> bool:
    import torch

    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return device.type == "cpu" and spec.bf16 and computes_bf16()


def _description(device: "torch.device", is_bf16: bool) -> str:
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type != "cpu":
        return device.type
    precision = ", bf16" if is_bf16 else ""
    return f"CPU, {torch.get_num_threads()} threads{precision}"


def _check_memory(parameters: int) -> None:
    import psutil

    needed = parameters * BYTES_PER_PARAMETER / 2**30
    available = psutil.virtual_memory().available / 2**30
    if needed > 0.8 * available:
        raise MemoryError(
            f"weights and optimizer need {needed:.0f} GiB of memory, and {available:.0f} GiB are free"
        )


if __name__ == "__main__":
    say(json.dumps(asdict(measure_step(TrialSpec(**json.load(sys.stdin))))))
