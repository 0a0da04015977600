"""The machine that a stage runs on: cores within the limits of its container, and accelerators.

The module imports no library.
"""

import importlib.metadata
import os
import sys
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
CPUS = Path("/sys/devices/system/cpu")
PROCESSORS = Path("/proc/cpuinfo")
BF16_INSTRUCTIONS = {"avx512_bf16", "amx_bf16"}
"""Instructions that multiply matrices of bf16, of x86 processors, as Linux names them."""
DEVICE_FILES = (
    "nvidia[0-9]*",  # NVIDIA
    "nvhost-gpu",  # NVIDIA Jetson
    "dxg",  # GPUs in WSL 2
    "kfd",  # AMD
    "accel*",  # Habana, TPU
    "davinci[0-9]*",  # Ascend
    "neuron[0-9]*",  # AWS
)
"""Files in ``/dev`` without which a driver cannot reach its device, in containers too."""
DEVICE_FILES_OF_BUILD = {"xpu": ("dri/renderD*",)}
"""The same for builds of torch for one kind of device.

Other machines have these files, too: any graphics card has them.
"""


def processor_words() -> set[str]:
    """Return what Linux says of the processors: maker, name, instructions; an empty set on other systems."""
    if not PROCESSORS.exists():
        return set()
    return set(PROCESSORS.read_text(encoding="utf-8", errors="replace").split())


def computes_bf16() -> bool:
    """Return True if the processor multiplies matrices of bf16 by instructions of its own."""
    return not BF16_INSTRUCTIONS.isdisjoint(processor_words())


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


def physical_cores(cpus: Path = CPUS) -> int:
    """Return the number of physical cores of the affinity mask.

    Two hardware threads of a core compute no faster than one.
    """
    if not hasattr(os, "sched_getaffinity"):  # macOS: its processors have one thread per core
        return os.cpu_count() or 1
    # Hardware threads of one core have the same list of siblings, so each core counts once.
    cores = set()
    for number in os.sched_getaffinity(0):
        cores.add(_siblings(cpus / f"cpu{number}/topology") or str(number))
    return len(cores)


def _siblings(topology: Path) -> str | None:
    """Return the hardware threads of a core, as the kernel lists them."""
    for name in ("core_cpus_list", "thread_siblings_list"):  # the second: before Linux 5.3
        try:
            return (topology / name).read_text().strip()
        except OSError:
            continue
    return None


def cpu_quota(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> float | None:
    """Return the number of cores that the container may use at a time; ``None`` for no limit.

    It is the lowest limit of its control groups.
    """
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return None
    quotas = []
    for line in lines:
        for group in _groups(cgroups, line):
            quota = _quota(group)
            if quota is not None:
                quotas.append(quota)
    return min(quotas, default=None)


def _groups(cgroups: Path, line: str) -> Iterator[Path]:
    """Yield the folder of a group and the folders of the groups that contain it.

    A container may see the path of its group on the host, while its own group is mounted as the root: folders
    that do not exist have no quota.
    """
    _, controllers, path = line.split(":", 2)
    if controllers and "cpu" not in controllers.split(","):
        return
    root = cgroups / controllers
    group = root / path.lstrip("/")
    yield group
    yield from (parent for parent in group.parents if parent.is_relative_to(root))


def _quota(group: Path) -> float | None:
    """Return the quota of one group, in cores."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota = (group / "cpu.cfs_quota_us").read_text()
            period = (group / "cpu.cfs_period_us").read_text()
        if int(quota) <= 0:  # version 1: -1 for no limit
            return None
        return int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # version 2: "max" for no limit
        return None


def why_no_accelerator(torch: str | None = None, devices: Path = Path("/dev")) -> str | None:
    """Return the reason why training certainly finds no accelerator here; ``None`` if torch has to decide.

    Importing torch takes seconds, so this asks for the files without which no driver works.
    """
    if sys.platform == "darwin":
        return None
    torch = torch or importlib.metadata.version("torch")
    build = torch.partition("+")[2]
    if build == "cpu":
        return f"torch {torch} is built for the CPU"
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides all GPUs"
    names = DEVICE_FILES_OF_BUILD.get(build, DEVICE_FILES)
    if not any(path.exists() for name in names for path in devices.glob(name)):
        return f"{devices} has no file of a GPU driver"
    return None


def cpu_is_forced() -> bool:
    """Return True if ``ACCELERATE_USE_CPU``, accelerate's own environment variable, requests the CPU."""
    return os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes", "on")
