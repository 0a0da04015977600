"""Launch configurations, ``conf/accelerate/NAME.yaml``: read, and checked against the machine."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tuneline.core.params.loading import read_yaml
from tuneline.core.runtime.errors import ParamsError
from tuneline.core.stage.machine import computes_bf16, cpu_is_forced, why_no_accelerator

LAUNCH = Path("conf/accelerate")
AUTO = "auto"
"""Name of the launch configuration for which devices, processes and precision are chosen."""
CPU = "cpu"
"""Name of the launch configuration that stays on the CPU."""
MixedPrecision = Literal["no", "fp16", "bf16"]


def read_launch(name: str) -> Mapping[str, Any]:
    """Read a launch configuration.

    Raises:
        ParamsError: It does not exist, or is not a mapping in YAML or JSON.
    """
    path = launch_file(name)
    if not path.is_file():
        available = sorted(file.stem for file in LAUNCH.glob("*.yaml"))
        raise ParamsError(f"train.launch: {path} does not exist.", f"Choose one of {', '.join(available)}.")
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise ParamsError(
            f"{path}: expected the keys of an accelerate configuration.",
            f"accelerate config --config_file {path}",
        )
    return values


def launch_file(name: str) -> Path:
    """Return the path of a launch configuration."""
    return LAUNCH / f"{name}.yaml"


def needs_gpu(name: str) -> bool:
    """Return True if a launch configuration is for GPUs only.

    Then accelerate would train on a CPU without a warning, for hours.
    """
    if name == AUTO:  # it suits every machine
        return False
    return not read_launch(name).get("use_cpu") and not cpu_is_forced()


def check_launch(name: str) -> None:
    """Refuse a launch configuration that does not suit the machine: every stage up to the training calls it.

    Raises:
        ParamsError: The configuration does not exist, or needs a GPU and there is none.
    """
    if not needs_gpu(name):
        return
    reason = why_no_accelerator()
    if reason is not None:
        raise ParamsError(
            f"train.launch: {launch_file(name)} needs a GPU, and there is none: {reason}.",
            "Set train.launch to auto, for the best devices of each machine, or to cpu.",
        )


@dataclass(frozen=True)
class DeviceChoice:
    """Devices of a training.

    Attributes:
        precision: Of devices that torch finds: the fastest one that they compute and that is safe for
            fine-tuning.
        why_cpu: Reason for the CPU.
    """

    device: Literal["cpu", "cuda"]
    processes: int
    precision: MixedPrecision
    why_cpu: str | None = None

    def __str__(self) -> str:
        device = "the CPU" if self.device == "cpu" else f"{self.processes} GPU"
        if self.processes > 1:
            device += "s (DDP)"
        precision = "float32" if self.precision == "no" else self.precision
        reason = f" ({self.why_cpu})" if self.why_cpu else ""
        return f"{device}, {precision}{reason}"


def choose_devices(
    launch: str, global_batch_size: int, mixed_precision: MixedPrecision | Literal["auto"] | None
) -> DeviceChoice:
    """Choose devices, processes and precision; with the launch configuration ``cpu``, only the precision."""
    if launch == AUTO:
        devices = find_devices()
    else:
        devices = _cpu(None)
    return choose_processes(devices, global_batch_size, mixed_precision)


def choose_processes(
    devices: DeviceChoice,
    global_batch_size: int,
    mixed_precision: MixedPrecision | Literal["auto"] | None = None,
) -> DeviceChoice:
    """Choose processes and precision for the devices of a machine.

    The precision is the user's, else the fastest that is safe for fine-tuning: on a CPU float32, and with
    ``auto`` bf16 if the CPU has AMX. More processes than examples in one optimizer step would compute
    nothing.
    """
    precision = devices.precision
    if mixed_precision is not None and mixed_precision != "auto":
        precision = mixed_precision
    elif devices.device == "cpu" and mixed_precision is None:
        precision = "no"
    return replace(devices, processes=min(devices.processes, global_batch_size), precision=precision)


def find_devices() -> DeviceChoice:
    """Ask torch for the accelerators of this machine, unless it certainly has none: the import is slow."""
    reason = "ACCELERATE_USE_CPU is set" if cpu_is_forced() else why_no_accelerator()
    if reason is not None:
        return _cpu(reason)
    import torch

    if torch.cuda.is_available():
        precision: MixedPrecision = "fp16"
        if torch.cuda.is_bf16_supported(including_emulation=False):
            precision = "bf16"
        return DeviceChoice("cuda", torch.cuda.device_count(), precision)
    return _cpu("torch finds no GPU")


def _cpu(reason: str | None) -> DeviceChoice:
    return DeviceChoice("cpu", 1, "bf16" if computes_bf16() else "no", reason)
