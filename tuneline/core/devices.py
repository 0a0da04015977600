"""The devices that torch finds on a machine, and what ``train.launch: auto`` makes of them."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Literal

from tuneline.core.machine import cpu_is_forced, why_no_accelerator

Precision = Literal["no", "fp16", "bf16"]
BF16_CAPABILITY = (8, 0)
"""Compute capability of the first CUDA GPUs that compute in bf16: Ampere."""


@dataclass(frozen=True)
class Devices:
    """Accelerators that torch finds.

    Attributes:
        capability: Lowest compute capability of the CUDA devices.
        rocm: True if the devices are AMD's, which torch names ``cuda``. All that it supports compute in bf16.
        why_cpu: Reason for the CPU.
    """

    type: Literal["cpu", "cuda", "mps"] = "cpu"
    count: int = 1
    capability: tuple[int, int] = (0, 0)
    rocm: bool = False
    why_cpu: str | None = None


@dataclass(frozen=True)
class DeviceChoice:
    """What ``train.launch: auto`` chooses."""

    device: Literal["cpu", "cuda", "mps"]
    processes: int
    precision: Precision

    def __str__(self) -> str:
        device = {"cpu": "the CPU", "mps": "Apple's GPU (MPS)"}.get(self.device)
        device = device or ("1 GPU" if self.processes == 1 else f"{self.processes} GPUs (DDP)")
        return f"{device}, {'float32' if self.precision == 'no' else self.precision}"


def choose(devices: Devices, global_batch_size: int, mixed_precision: Precision | None = None) -> DeviceChoice:
    """Choose processes and precision for the devices of a machine: the user's precision, else the fastest that is safe for fine-tuning.

    More processes than examples in one optimizer step would compute nothing.
    """
    precision: Precision = "no"
    if devices.type == "cuda":
        precision = "bf16" if devices.rocm or devices.capability >= BF16_CAPABILITY else "fp16"
    return DeviceChoice(devices.type, min(devices.count, global_batch_size), mixed_precision or precision)


def find_devices() -> Devices:
    """Ask torch for the accelerators of this machine, unless it certainly has none: importing torch takes seconds.

    With several GPUs, CUDA is initialized in another process, because each process that initializes it keeps memory of a GPU.
    """
    reason = "ACCELERATE_USE_CPU is set" if cpu_is_forced() else why_no_accelerator()
    if reason is not None:
        return Devices(why_cpu=reason)
    import torch

    if torch.cuda.is_available():
        count, rocm = torch.cuda.device_count(), torch.version.hip is not None
        capability = (0, 0) if rocm else lowest_capability() if count == 1 else None
        if capability is None:
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
                capability = executor.submit(lowest_capability).result()
        return Devices("cuda", count, capability, rocm)
    return Devices("mps") if torch.backends.mps.is_available() else Devices(why_cpu="torch finds no GPU")


def lowest_capability() -> tuple[int, int]:
    """Return the lowest compute capability of the visible CUDA devices."""
    import torch

    return min(torch.cuda.get_device_capability(device) for device in range(torch.cuda.device_count()))
