"""The machine that a stage runs on: cores within the limits of its container, and accelerators.

The module imports no library.
"""

import importlib.metadata
import os
from pathlib import Path

CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")
CPUS = Path("/sys/devices/system/cpu")
PROCESSORS = Path("/proc/cpuinfo")
BF16_INSTRUCTION = "amx_bf16"
"""Instruction of x86 processors that multiplies matrices of bf16 faster than float32, as Linux names it.

``avx512_bf16`` alone does not: MiniLM trains at 0.64 of the speed of float32 with it (Intel Xeon).
"""
DEVICES = Path("/dev")
DEVICE_FILES = ("nvidia[0-9]*", "nvhost-gpu", "dxg", "kfd")
"""Files in ``/dev`` without which no driver of NVIDIA (also in WSL) or AMD reaches its device."""


def computes_bf16() -> bool:
    """Return True if the processor multiplies matrices of bf16 faster than those of float32."""
    if not PROCESSORS.exists():
        return False
    return BF16_INSTRUCTION in PROCESSORS.read_text(encoding="utf-8", errors="replace").split()


def threads(processes: int = 1) -> int:
    """Return the number of threads for each of several processes.

    It is ``OMP_NUM_THREADS`` if set, else the process's part of the available cores.
    """
    value = os.environ.get("OMP_NUM_THREADS", "")
    if value.isdecimal() and int(value) > 0:
        return int(value)
    return max(available_cores() // processes, 1)


def available_cores() -> int:
    """Return the number of physical cores that this process may use, by its affinity mask.

    A fraction of a core is left unused: one thread more than the quota allows makes all threads wait for the
    one that is suspended.
    """
    quota = cpu_quota()
    cores = physical_cores()
    if quota is None:
        return cores
    return max(min(cores, int(quota)), 1)


def physical_cores() -> int:
    """Return the number of physical cores of the affinity mask.

    Two hardware threads of a core compute no faster than one.
    """
    # Hardware threads of one core have the same list of siblings, so each core counts once.
    cores = set()
    for number in os.sched_getaffinity(0):
        siblings = CPUS / f"cpu{number}/topology/core_cpus_list"
        cores.add(siblings.read_text() if siblings.exists() else str(number))
    return len(cores)


def cpu_quota(limit: Path = CPU_LIMIT) -> float | None:
    """Return the number of cores that the container may use at a time; ``None`` for no limit."""
    try:
        quota, period = limit.read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError):  # no container, or "max"
        return None


def why_no_accelerator() -> str | None:
    """Return the reason why training certainly finds no accelerator here; ``None`` if torch has to decide.

    Importing torch takes seconds, so this asks for the files without which no driver works.
    """
    torch = importlib.metadata.version("torch")
    build = torch.partition("+")[2]
    if build == "cpu":
        return f"torch {torch} is built for the CPU"
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides all GPUs"
    if not any(path.exists() for name in DEVICE_FILES for path in DEVICES.glob(name)):
        return f"{DEVICES} has no file of a GPU driver"
    return None


def cpu_is_forced() -> bool:
    """Return True if ``ACCELERATE_USE_CPU``, accelerate's own environment variable, requests the CPU."""
    return os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes", "on")
