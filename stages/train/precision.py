"""Precision of ``train.mixed_precision: auto`` on a CPU: as in the run to resume, else the faster one.

A processor that computes bf16 may gain nothing from it, so a few steps are measured. A run that was
interrupted keeps its precision, whatever the processor is now: in another precision, it would be another run.
"""

import json
import statistics
import time
from pathlib import Path
from typing import Any

from stages.train.data import model_input_files
from tuneline.core.launch import DeviceChoice, MixedPrecision
from tuneline.params import Params
from tuneline.paths import CHECKPOINTS

LEAST_SPEED = 1.1
"""bf16 is chosen if its steps are at least so many times as fast as those in float32."""
_ROWS = 512
"""Tokens in a measured step."""
_FEATURES = 768
"""Features of its layers, as in BERT."""
_STEPS = 3
"""Measured steps in each precision."""


def choose_cpu_precision(choice: DeviceChoice, params: Params) -> tuple[MixedPrecision, str]:
    """Return the precision of a training on the CPU, and the reason as a phrase for the user.

    ``choice`` has the precision that suits the instructions of the processor.
    """
    if params.model.head == "frozen":
        return "no", "the vectors of a frozen checkpoint are computed in float32"
    interrupted = interrupted_precision(params)
    if interrupted is not None:
        if interrupted == "bf16" and choice.precision != "bf16":
            return interrupted, "that of the run to resume, although this processor computes it slowly"
        return interrupted, "that of the run to resume"

    if choice.precision != "bf16":
        return choice.precision, "this processor does not compute bf16"
    speed = bf16_speed()
    precision: MixedPrecision = "bf16" if speed >= LEAST_SPEED else "no"
    return precision, f"a step in bf16 is {speed:.1f} x as fast as in float32"


def interrupted_precision(params: Params, checkpoints: Path = CHECKPOINTS) -> MixedPrecision | None:
    """Return the precision of the interrupted run on a CPU with these parameters and data.

    The result is ``None`` if there is no such run.
    """
    from stages.train.checkpoints import run_inputs

    # without a checkpoint there is nothing to resume, and no need to hash the data
    runs = [file for file in sorted(checkpoints.glob("*/run.json")) if any(file.parent.glob("step-*"))]
    if not runs:
        return None

    expected = run_inputs(params, model_input_files())
    for file in runs:
        identity: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        is_same = all(identity.get(key) == value for key, value in expected.items())
        if is_same and identity.get("device") == "cpu":
            precision: MixedPrecision = identity["precision"]
            return precision
    return None


def bf16_speed() -> float:
    """Return how many times as fast a step in bf16 is on this processor as a step in float32.

    A step is the forward and backward pass of a feed-forward layer of BERT.
    """
    import torch
    from torch import nn

    from stages.train.cpu.bf16 import use_bf16

    seconds = []
    for is_bf16 in (False, True):
        layers = nn.Sequential(
            nn.Linear(_FEATURES, 4 * _FEATURES),
            nn.GELU(),
            nn.Linear(4 * _FEATURES, _FEATURES),
            nn.LayerNorm(_FEATURES),
        )
        if is_bf16:
            use_bf16(layers)
        seconds.append(_step_seconds(layers, torch.ones(_ROWS, _FEATURES)))
    return seconds[0] / seconds[1]


def _step_seconds(layers: Any, values: Any) -> float:
    """Return the median of the measured steps. The first step selects kernels, and is not measured."""
    measured: list[float] = []
    for _ in range(1 + _STEPS):
        started = time.perf_counter()
        layers(values).float().sum().backward()
        measured.append(time.perf_counter() - started)
    return statistics.median(measured[1:])
