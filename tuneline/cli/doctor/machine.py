"""Cores, memory, disk, accelerator: is there enough, and is what is there used?"""

import json
import os
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from tuneline.cli.doctor.finding import Finding, error, ok, warning
from tuneline.paths import ONNX

GB = 2**30
CGROUP = Path("/sys/fs/cgroup")
NVIDIA = Path("/proc/driver/nvidia/version")


def look(root: Path) -> Iterator[Finding]:
    """Looks at the machine."""
    yield cores(len(os.sched_getaffinity(0)), cpu_quota(CGROUP), os.environ.get("OMP_NUM_THREADS"))
    yield memory(min(psutil.virtual_memory().available, memory_left(CGROUP)))
    yield disk(root, shutil.disk_usage(root).free)
    yield accelerator(NVIDIA.exists(), torch_build(), launch(root))
    yield from int8(root / ONNX)


def cpu_quota(cgroup: Path) -> float | None:
    """Cores that a container may use at a time, if it is limited (cgroup v2)."""
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def cores(seen: int, quota: float | None, threads: str | None) -> Finding:
    """Whether as many threads will run as there are cores for."""
    if quota is not None and quota < seen and not threads:
        return warning(
            f"{seen} cores are seen, but this container may use {quota:g} at a time: threads will wait for each other",
            f"export OMP_NUM_THREADS={max(int(quota), 1)}",
        )
    if threads and threads.isdecimal() and int(threads) > seen:
        return warning(f"OMP_NUM_THREADS is {threads}, and there are {seen} cores", f"export OMP_NUM_THREADS={seen}")
    return ok(f"{seen} cores" + (f", OMP_NUM_THREADS={threads}" if threads else ""))


def memory_left(cgroup: Path) -> float:
    """Bytes that a container may still take; infinite where it is not limited (cgroup v2)."""
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):
        return float("inf")
    return float("inf") if limit == "max" else max(int(limit) - used, 0)


def memory(available: float) -> Finding:
    """Whether the default line fits: torch and its libraries take about 1 GB."""
    if available < 1.5 * GB:
        return warning(f"{available / GB:.1f} GB of memory are free; the line wants 1.5", "Close something, or use a larger machine.")
    return ok(f"{available / GB:.1f} GB of memory free")


def disk(root: Path, free: int) -> Finding:
    """Whether there is room for data, checkpoints and DVC's cache."""
    if free < 0.5 * GB:
        return error(
            f"{free / GB:.1f} GB free on the disk of {root.resolve()}", "Make room: dvc gc --workspace drops old versions from the cache."
        )
    if free < 5 * GB:
        return warning(
            f"{free / GB:.1f} GB free on the disk of {root.resolve()}; checkpoints of a bert-base take 1.3 GB each",
            "dvc gc --workspace drops old versions from the cache.",
        )
    return ok(f"{free / GB:,.0f} GB of disk free")


def int8(folder: Path) -> Iterator[Finding]:
    """Yield whether the exported int8 model, where there is one, gives the same products on every processor."""
    try:
        model = json.loads((folder / "export.json").read_text(encoding="utf-8"))["models"]["int8"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    from tuneline.onnx.session import SAFE_WEIGHT_BITS, processor_saturates

    if model.get("weight_bits") == SAFE_WEIGHT_BITS:
        yield ok("the int8 model gives the same products on every processor (7-bit weights)")
        return
    hint = "Set export.int8.reduce_range: true and run `dvc repro`."
    if processor_saturates():
        yield warning(f"{folder / model['file']} has 8-bit weights, and this processor clips their products: it has no VNNI", hint)
    else:
        yield warning(f"{folder / model['file']} has 8-bit weights: only for processors with VNNI, as this one", hint)


def torch_build() -> str | None:
    """The version of torch with its build, without importing it."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


def launch(root: Path) -> dict[str, Any]:
    """The launch configuration that ``params.yaml`` names; empty where it cannot be read."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    yaml = YAML(typ="safe", pure=True)
    try:
        name = yaml.load(root / "params.yaml")["train"]["launch"]
        return dict(yaml.load(root / f"conf/accelerate/{name}.yaml"))
    except (OSError, YAMLError, KeyError, TypeError, ValueError):
        return {}


def accelerator(driver: bool, torch: str | None, launching: dict[str, Any]) -> Finding:
    """Whether the graphics card, the build of torch and the launch configuration go together."""
    on_cpu = bool(launching.get("use_cpu", True))
    if not on_cpu and not driver:
        return error("train.launch wants a GPU, and no NVIDIA driver is there", "Set train.launch to cpu, or install the driver.")
    if driver and torch is not None and torch.endswith("+cpu"):
        level = error if not on_cpu else warning
        return level(f"a GPU is there, but torch {torch} is built for the CPU", "README.md, 'Which torch', says how to get the CUDA build.")
    if driver and on_cpu:
        return warning("a GPU is there, but train.launch trains on the CPU", "dvc exp run -S train.launch=gpu")
    return ok(f"torch {torch}" + (", GPU" if driver else ", no GPU wanted or there"))
