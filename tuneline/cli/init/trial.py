"""A short trial of training: a few real steps of the architecture with random weights, to say what a training will cost here.

``run_trial`` runs this module as a process of its own, which imports torch, prints a ``TrialResult`` and ends: its memory is free again,
and a failure, even for lack of memory, does not end ``tuneline init``.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tuneline
from tuneline.core.terminal import say

if TYPE_CHECKING:
    import torch

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
        micro_batch_size: Rows of a micro-batch.
        lengths: Tokens of the longest row of each batch, ascending.
        cpu: Stay on the CPU even if there is another device.
    """

    config: Mapping[str, Any]
    labels: int
    micro_batch_size: int
    lengths: Sequence[int]
    cpu: bool


@dataclass(frozen=True)
class TrialResult:
    """What was measured: mean seconds of a forward and backward pass of a micro-batch, and seconds of an update of the weights."""

    device: str
    micro_batch_seconds: float
    optimizer_seconds: float

    def step_seconds(self, micro_batches: int) -> float:
        """Return the seconds of an optimizer step."""
        return micro_batches * self.micro_batch_seconds + self.optimizer_seconds


def batch_lengths(tokens: Sequence[int], max_length: int, rows: int) -> list[int]:
    """Return the tokens of the longest row of each batch, as training buckets rows by length.

    ``tokens`` has those of each row, ascending; what is over ``max_length`` is truncated.
    """
    return [min(int(max(tokens[start : start + rows])), max_length) for start in range(0, len(tokens), rows)]


def is_busy() -> bool:
    """Return True if other programs use more than half of the processor."""
    return os.getloadavg()[0] > (os.cpu_count() or 1) / 2


def run_trial(spec: TrialSpec) -> TrialResult | str:
    """Run a trial in a process of its own; return the result, or why there is none."""
    root = str(Path(tuneline.__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    waits = {"OMP_WAIT_POLICY": "PASSIVE"} if is_busy() else {}  # as stages/train/devices.py does during a training
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tuneline.cli.init.trial"],
            input=json.dumps(asdict(spec)),
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
            env={**waits, **os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"},
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {TIMEOUT} seconds"
    except OSError as error:
        return str(error.strerror)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return lines[-1] if lines else f"it was ended by signal {-done.returncode}"
    return TrialResult(**json.loads(done.stdout.splitlines()[-1]))


def measure(spec: TrialSpec) -> TrialResult:
    """Train a few micro-batches of random tokens.

    Raises:
        MemoryError: The model and its optimizer need more memory than there is.
    """
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = AutoConfig.for_model(**{**spec.config, "num_labels": spec.labels})
    classifier: Callable[[Any], torch.nn.Module] = AutoModelForSequenceClassification.from_config
    with torch.device("meta"):
        _check_memory(sum(weight.numel() for weight in classifier(config).parameters()))
    device = torch.device("cpu")
    if not spec.cpu and torch.accelerator.is_available():
        device = torch.accelerator.current_accelerator() or device
    model = classifier(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=device.type != "mps")
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda" and torch.cuda.is_bf16_supported())

    def step(length: int) -> None:
        ids = torch.randint(0, config.vocab_size, (spec.micro_batch_size, length), device=device)
        labels = torch.randint(0, max(2, spec.labels), (spec.micro_batch_size,), device=device)
        with autocast:
            outputs = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels.float() if spec.labels == 1 else labels)
        outputs.loss.backward()

    step(spec.lengths[len(spec.lengths) // 2])  # the first pass allocates memory and selects kernels
    optimizer.step()
    micro_batch = _mean_seconds(step, spec.lengths, device)
    return TrialResult(_description(device), micro_batch, _seconds(optimizer.step, device))


def _mean_seconds(step: Callable[[int], None], lengths: Sequence[int], device: "torch.device") -> float:
    """Measure some lengths, and scale to the mean of all: the time of a pass is about proportional to its tokens."""
    seconds = tokens = 0.0
    for quantile in QUANTILES:
        length = lengths[min(len(lengths) - 1, int(quantile * len(lengths)))]
        seconds += _seconds(lambda length=length: step(length), device)  # type: ignore[misc]
        tokens += length
        if seconds > SECONDS:
            break
    return seconds / tokens * sum(lengths) / len(lengths)


def _seconds(action: Callable[[], Any], device: "torch.device") -> float:
    import torch

    started = time.perf_counter()
    action()
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()
    return time.perf_counter() - started


def _description(device: "torch.device") -> str:
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {torch.get_num_threads()} threads" if device.type == "cpu" else device.type


def _check_memory(parameters: int) -> None:
    import psutil

    needed, available = parameters * BYTES_PER_PARAMETER / 2**30, psutil.virtual_memory().available / 2**30
    if needed > 0.8 * available:
        raise MemoryError(f"weights and optimizer need {needed:.0f} GiB of memory, and {available:.0f} GiB are free")


if __name__ == "__main__":
    say(json.dumps(asdict(measure(TrialSpec(**json.load(sys.stdin))))))
