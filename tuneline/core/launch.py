"""Launch configurations, ``conf/accelerate/NAME.yaml``: read, and checked against the machine."""

import multiprocessing
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tuneline.core.machine import computes_bf16, cpu_is_forced, why_no_accelerator
from tuneline.core.yaml_files import read_yaml
from tuneline.runtime.errors import ParamsError

LAUNCH = Path("conf/accelerate")
AUTO = "auto"
"""Name of the launch configuration for which devices, processes and precision are chosen."""
CPU = "cpu"
"""Name of the launch configuration that stays on the CPU."""
CHECKED_TYPES = ("NO", "MULTI_GPU", "FSDP", "DEEPSPEED", "MEGATRON_LM")
"""Values of ``distributed_type`` whose devices are known here.

Others (TPU, Ascend, ...) are left to accelerate.
"""


def read_launch(name: str) -> Mapping[str, Any]:
    """Read a launch configuration; a ``ParamsError`` if it does not exist, or is no YAML or JSON mapping."""
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
    config = read_launch(name)
    if name == AUTO or config.get("use_cpu") or cpu_is_forced():
        return False
    return (
        config.get("compute_environment", "LOCAL_MACHINE") == "LOCAL_MACHINE"
        and config.get("distributed_type", "NO") in CHECKED_TYPES
    )


def check_launch(name: str, optimizer: str) -> None:
    """Refuse a launch configuration that does not suit the machine or the optimizer.

    Every stage up to the training calls it.

    Raises:
        ParamsError: The configuration does not exist, or needs a GPU and there is none, or would train with
            another optimizer.
    """
    if name == AUTO:  # it suits every machine
        return
    reason = why_no_accelerator() if needs_gpu(name) else None
    if reason is not None:
        raise ParamsError(
            f"train.launch: {launch_file(name)} needs a GPU, and there is none: {reason}.",
            "Set train.launch to auto, for the best devices of each machine, or to cpu.",
        )
    if optimizer not in ("adamw", "adam") and offloads_optimizer(read_launch(name)):
        raise ParamsError(
            f"train.optimizer: with {launch_file(name)}, DeepSpeed offloads the optimizer to the CPU, and"
            f" accelerate replaces {optimizer} by DeepSpeed's Adam.",
            "Set train.optimizer to adamw or adam, or train.launch to fsdp-offload.",
        )


def offloads_optimizer(config: Mapping[str, Any]) -> bool:
    """Return True if a launch configuration lets DeepSpeed offload the optimizer.

    It says so itself, or by a file of DeepSpeed that it names.
    """
    if config.get("distributed_type") != "DEEPSPEED":
        return False
    # Each section may be missing or null.
    deepspeed = config.get("deepspeed_config") or {}
    file = deepspeed.get("deepspeed_config_file")
    if file:
        values = read_yaml(Path(file)) or {}
        zero = values.get("zero_optimization") or {}
        offload = zero.get("offload_optimizer") or {}
        device = offload.get("device", "none")
        return device != "none" and bool(values.get("zero_force_ds_cpu_optimizer", True))
    return str(deepspeed.get("offload_optimizer_device") or "none") != "none"


MixedPrecision = Literal["no", "fp16", "bf16"]
BF16_CAPABILITY = (8, 0)
"""Compute capability of the first CUDA GPUs that compute in bf16: Ampere."""


@dataclass(frozen=True)
class Devices:
    """Accelerators that torch finds.

    Attributes:
        capability: Lowest compute capability of the CUDA devices.
        rocm: True if the devices are AMD's, which torch names ``cuda``. All that it supports compute in bf16.
        why_cpu: Reason for the CPU.
        cpu_bf16: True if the CPU multiplies matrices of bf16.
    """

    type: Literal["cpu", "cuda", "mps"] = "cpu"
    count: int = 1
    capability: tuple[int, int] = (0, 0)
    rocm: bool = False
    why_cpu: str | None = None
    cpu_bf16: bool = False


@dataclass(frozen=True)
class DeviceChoice:
    """What ``train.launch: auto`` chooses."""

    device: Literal["cpu", "cuda", "mps"]
    processes: int
    precision: MixedPrecision

    def __str__(self) -> str:
        if self.device == "cpu":
            device = "the CPU"
        elif self.device == "mps":
            device = "Apple's GPU (MPS)"
        elif self.processes == 1:
            device = "1 GPU"
        else:
            device = f"{self.processes} GPUs (DDP)"
        precision = "float32" if self.precision == "no" else self.precision
        return f"{device}, {precision}"


def choose_processes(
    devices: Devices, global_batch_size: int, mixed_precision: MixedPrecision | Literal["auto"] | None = None
) -> DeviceChoice:
    """Choose processes and precision for the devices of a machine.

    The precision is the user's, else the fastest that is safe for fine-tuning: on a CPU float32, and with
    ``auto`` bf16 if the CPU computes it. More processes than examples in one optimizer step would compute
    nothing.
    """
    precision: MixedPrecision = "no"
    if mixed_precision is not None and mixed_precision != "auto":
        precision = mixed_precision
    elif devices.type == "cuda":
        precision = "bf16" if devices.rocm or devices.capability >= BF16_CAPABILITY else "fp16"
    elif devices.type == "cpu" and devices.cpu_bf16 and mixed_precision == "auto":
        precision = "bf16"
    return DeviceChoice(devices.type, min(devices.count, global_batch_size), precision)


def find_devices() -> Devices:
    """Ask torch for the accelerators of this machine, unless it certainly has none.

    Importing torch takes seconds. With several GPUs, CUDA is initialized in another process, because each
    process that initializes it keeps memory of a GPU.
    """
    reason = "ACCELERATE_USE_CPU is set" if cpu_is_forced() else why_no_accelerator()
    if reason is not None:
        return Devices(why_cpu=reason, cpu_bf16=computes_bf16())
    import torch

    if not torch.cuda.is_available():
        if torch.backends.mps.is_available():
            return Devices("mps")
        return Devices(why_cpu="torch finds no GPU", cpu_bf16=computes_bf16())

    count = torch.cuda.device_count()
    if torch.version.hip is not None:
        return Devices("cuda", count, rocm=True)
    if count == 1:
        return Devices("cuda", count, lowest_capability())
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        capability = executor.submit(lowest_capability).result()
    return Devices("cuda", count, capability)


def lowest_capability() -> tuple[int, int]:
    """Return the lowest compute capability of the visible CUDA devices."""
    import torch

    return min(torch.cuda.get_device_capability(device) for device in range(torch.cuda.device_count()))
