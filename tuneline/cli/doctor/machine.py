"""Checks of the environment (Python, programs, packages) and the machine (cores, memory, disk, GPU, int8 support)."""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

import psutil
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tuneline.cli.doctor import DoctorResult, error, ok, warning
from tuneline.core.errors import ParamsError
from tuneline.core.launch import AUTO, Devices, choose, find_devices, needs_gpu
from tuneline.core.machine import available_cores, cpu_quota, why_no_accelerator
from tuneline.core.paths import ONNX
from tuneline.params import TrainParams
from tuneline.params.loading import load_params
from tuneline.reports.export import EXPORT_RECORD, UsageRecord

OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
MAX_PACKAGES_SHOWN = 6
GB = 2**30
CGROUP = Path("/sys/fs/cgroup")
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")
FREE_DISK_HINT = (
    "prefect deployment run clean/clean-weekly. Without the flows: git fetch --tags, then dvc gc --all-tags --all-branches while no run is "
    "in progress: it removes from DVC's cache what no branch or tag uses (add --all-experiments to keep experiments). Never only "
    "--workspace: that deletes the registered models."
)


def check_environment(root: Path) -> Iterator[DoctorResult]:
    """Yield the results for the interpreter, the programs that stages call, and the installed packages."""
    yield check_python(sys.version_info[:2])
    yield check_programs(Path(sys.prefix), shutil.which("python"), shutil.which("dvc"))
    yield check_packages(root / "requirements.txt", installed_packages())


def check_machine(root: Path) -> Iterator[DoctorResult]:
    """Yield the results for cores, memory, disk, GPU and the int8 model."""
    yield check_cores(available_cores(), cpu_quota(), os.environ.get("OMP_NUM_THREADS"))
    yield check_memory(min(psutil.virtual_memory().available, available_in_container(CGROUP)))
    yield check_disk(root, shutil.disk_usage(root).free)
    yield from check_accelerator(root)
    yield from check_int8(root / ONNX)


def check_python(version: tuple[int, ...]) -> DoctorResult:
    """Check that the Python version, as ``(major, minor)``, is supported by the pinned requirements."""
    name = ".".join(map(str, version))
    if OLDEST_PYTHON <= version <= NEWEST_PYTHON:
        return ok(f"Python {name}")
    return error(f"Python {name} is not supported: 3.11 to 3.13 are", "make clean && make setup PYTHON=python3.12")


def check_programs(prefix: Path, *programs: str | None) -> DoctorResult:
    """Check that PATH finds the programs of this environment, because ``dvc repro`` starts stages by PATH; ``None``: not found."""
    bin_folder = (prefix / "bin").resolve()
    elsewhere = [path or "none" for path in programs if path is None or Path(path).parent.resolve() != bin_folder]
    if not elsewhere:
        return ok(f"python and dvc are in {bin_folder}")
    return warning(f"PATH finds {', '.join(elsewhere)} before {bin_folder}", f"source {bin_folder}/activate   (make run does this itself)")


def installed_packages() -> dict[str, str]:
    """Return the version of every package in this environment by canonical name."""
    return {canonicalize_name(package.name): package.version for package in distributions() if package.name}


def check_packages(lock: Path, versions: Mapping[str, str]) -> DoctorResult:
    """Check that every pinned package is installed in its pinned version; local builds such as ``+cpu`` count as the same version."""
    if not lock.exists():
        return error(f"{lock} is missing", "Run this in the root of the project.")
    pins = [Requirement(line.rstrip("\\")) for line in lock.read_text(encoding="utf-8").splitlines() if line[:1].isalnum()]
    required = {canonicalize_name(pin.name): str(pin.specifier)[2:] for pin in pins if pin.marker is None or pin.marker.evaluate()}
    wrong = [
        f"{name} {versions.get(name, 'missing')} (pinned: {version})"
        for name, version in required.items()
        if name not in versions or Version(versions[name]).public != Version(version).public
    ]
    if not wrong:
        return ok(f"{len(required)} packages as pinned")
    more = f", and {len(wrong) - MAX_PACKAGES_SHOWN} more" if len(wrong) > MAX_PACKAGES_SHOWN else ""
    return error(f"not as pinned in {lock.name}: {', '.join(wrong[:MAX_PACKAGES_SHOWN])}{more}", "make setup")


def check_cores(cores: int, quota: float | None, threads: str | None) -> DoctorResult:
    """Check that no more threads run than there are cores.

    Args:
        cores: Cores that a process may compute on: physical ones, within affinity mask and quota.
        quota: Cores that the container may use at a time; ``None`` for no limit.
        threads: Value of ``OMP_NUM_THREADS``.
    """
    limit = f" (the container may use {quota:g} at a time)" if quota is not None else ""
    if threads and threads.isdecimal() and int(threads) > cores:
        return warning(f"OMP_NUM_THREADS is {threads}, but only {cores} cores are available{limit}", "unset OMP_NUM_THREADS")
    return ok(f"{cores} cores{limit}, {threads or cores} threads" + " (OMP_NUM_THREADS)" * bool(threads))


def available_in_container(cgroup: Path) -> float:
    """Return the bytes of memory that the container may still use (cgroup v2); infinite if it is not limited."""
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):
        return float("inf")
    return float("inf") if limit == "max" else max(int(limit) - used, 0)


def check_memory(available: float) -> DoctorResult:
    """Check that the default pipeline fits into the available bytes: torch and its libraries take about 1 GB."""
    if available < 1.5 * GB:
        return warning(f"{available / GB:.1f} GB of memory are free; the pipeline needs 1.5 GB", "Close programs, or use a larger machine.")
    return ok(f"{available / GB:.1f} GB of memory free")


def check_disk(root: Path, free: int) -> DoctorResult:
    """Check that the free bytes suffice for data, checkpoints and DVC's cache."""
    message = f"{free / GB:.1f} GB free on the disk of {root.resolve()}"
    if free < 0.5 * GB:
        return error(message, f"Free some space: {FREE_DISK_HINT}")
    if free < 5 * GB:
        return warning(f"{message}; checkpoints of a bert-base take 1.3 GB each", FREE_DISK_HINT)
    return ok(f"{free / GB:,.0f} GB of disk free")


def torch_version() -> str | None:
    """Return the version of torch with its build, without importing it; ``None`` if it is not installed."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


def check_accelerator(root: Path) -> Iterator[DoctorResult]:
    """Check that ``train.launch`` suits the machine, and say what it trains on; yield nothing if another check finds it invalid."""
    with contextlib.suppress(ParamsError), contextlib.chdir(root):
        params = load_params().train
        if params.launch == AUTO:
            yield check_choice(find_devices(), params, torch_version(), NVIDIA_DRIVER.exists())
        elif needs_gpu(params.launch):
            yield check_gpu(params.launch, why_no_accelerator())
        else:
            yield check_cpu(params.launch, why_no_accelerator())


def check_choice(devices: Devices, params: TrainParams, torch: str | None, driver: bool) -> DoctorResult:
    """Say what ``train.launch: auto`` chooses, and check that it does not overlook a GPU, of which the NVIDIA driver tells."""
    choice = choose(devices, params.global_batch_size, params.mixed_precision)
    message = f"train.launch auto chooses {choice}" + (f" ({devices.why_cpu})" if devices.why_cpu else "")
    if driver and torch is not None and torch.endswith("+cpu"):
        return warning(message, "This machine has a GPU. Install the CUDA build of torch: README.md, 'torch with or without CUDA'.")
    return ok(message)


def check_gpu(launch: str, why_not: str | None) -> DoctorResult:
    """Check that there is a GPU for a launch configuration that needs one."""
    if why_not is not None:
        return error(f"train.launch {launch} needs a GPU, and there is none: {why_not}", "Set train.launch to auto, or install the driver.")
    return ok(f"train.launch {launch}, on a GPU")


def check_cpu(launch: str, why_no_gpu: str | None) -> DoctorResult:
    """Check that a launch configuration for the CPU leaves no GPU unused."""
    if why_no_gpu is None and sys.platform != "darwin":
        return warning(f"train.launch {launch} does not use the GPU of this machine", "dvc exp run -S train.launch=auto")
    return ok(f"train.launch {launch}")


def check_int8(folder: Path) -> Iterator[DoctorResult]:
    """Check that the exported int8 model computes the same on every processor; yield nothing if there is none."""
    record = UsageRecord.read_if_exists(folder / EXPORT_RECORD)
    model = record.models.get("int8") if record else None
    if model is None:
        return
    from tuneline.onnx.session import SAFE_WEIGHT_BITS, processor_saturates

    if model.weight_bits == SAFE_WEIGHT_BITS:
        yield ok("the int8 model computes the same on every processor (7-bit weights)")
        return
    hint = "Set export.int8.reduce_range: true and run `dvc repro`."
    if processor_saturates():
        yield warning(f"{folder / model.file} has 8-bit weights, and this processor saturates their products: it has no VNNI", hint)
    else:
        yield warning(f"{folder / model.file} has 8-bit weights: it needs a processor with VNNI, like this one", hint)
