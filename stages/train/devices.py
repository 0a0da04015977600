"""Device, precision, processes: what accelerate found, held against what was asked for."""

import platform
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import nn

from stages.train.watching import check_trackers
from tuneline.errors import ParamsError, StageError
from tuneline.params import TrainParams
from tuneline.params.loading import read_yaml
from tuneline.paths import REPORTS

LAUNCH = Path("conf/accelerate")


def start(params: TrainParams) -> Accelerator:
    """Starts accelerate as it was launched, and checks what it found.

    The schedule is stepped by the loop: prepared with accelerate's default it would step once for every process.

    Raises:
        ParamsError: The precision is not to be had on this device, or a tracker is not installed.
    """
    from stages.train.sharding import shard_on_cpu

    check_trackers(params.trackers)
    try:
        accelerator = Accelerator(
            mixed_precision=params.mixed_precision,
            step_scheduler_with_optimizer=False,
            log_with=list(params.trackers) or None,
            project_dir=REPORTS / "live",
        )
    except ValueError as error:
        raise ParamsError(f"train.mixed_precision: {error}", "'no' works everywhere.") from None
    check_precision(accelerator.mixed_precision, accelerator.device)
    shard_on_cpu(accelerator)
    if accelerator.device.type == "cuda" and params.tf32:
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
    return accelerator


def check_precision(precision: str, device: torch.device) -> None:
    """Refuses what the device cannot do; accelerate takes fp16 on a CPU and silently computes in float32.

    Raises:
        ParamsError: Says what the device can do instead.
    """
    if precision not in ("no", "fp16", "bf16"):
        raise ParamsError(f"mixed precision {precision!r} is not supported.", "Choose no, fp16 or bf16.")
    if precision == "fp16" and device.type == "cpu":
        raise ParamsError("fp16 needs a GPU; this run is on the CPU.", "Set train.mixed_precision to bf16 or 'no'.")
    if precision == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        name = torch.cuda.get_device_name(device)
        raise ParamsError(f"{name} has no bf16 (Ampere and later have).", "Set train.mixed_precision to fp16 or 'no'.")


def compile_in_place(model: nn.Module, backend: str) -> None:
    """Compiles the forward pass with ``torch.compile``, for any length of batch; the names of the weights stay.

    Raises:
        ParamsError: torch has no such backend here.
    """
    known = [*torch.compiler.list_backends(), "aot_eager", "eager"]
    if backend not in known:
        raise ParamsError(f"train.compile: torch has no backend {backend!r}.", f"Here it has {', '.join(known)}.")
    model.compile(backend=backend, dynamic=True)


def expected_processes(launch: str) -> int:
    """Number of processes that a launch configuration asks for.

    Raises:
        ParamsError: There is no such configuration, or it does not say.
    """
    path = LAUNCH / f"{launch}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(found.stem for found in LAUNCH.glob("*.yaml")))
        raise ParamsError(f"train.launch: {path} is missing.", f"There are: {known}")
    number = read_yaml(path).get("num_processes")
    if not isinstance(number, int):
        raise ParamsError(f"{path}: num_processes: a number is wanted, not {number!r}.")
    return number


def check_processes(launch: str, found: int) -> None:
    """Holds the number of processes against the launch configuration.

    ``accelerate launch --cpu --num_processes 2`` silently runs one; results would then be ascribed to two.

    Raises:
        StageError: They differ.
    """
    wanted = expected_processes(launch)
    if found != wanted:
        raise StageError(
            f"{LAUNCH / launch}.yaml asks for {wanted} process{'es' * (wanted != 1)}, and {found} run{'s' * (found == 1)}.",
            "Set num_processes there, or train.launch to another one. Several processes on the CPU need torchrun (docs/training.md).",
        )


def describe(accelerator: Accelerator) -> str:
    """Device and its name, precision, processes, in one line."""
    device = accelerator.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{platform.processor() or platform.machine()}"
    threads = f", {torch.get_num_threads()} threads" if device.type == "cpu" else ""
    kind = "" if accelerator.distributed_type == DistributedType.NO else f" ({accelerator.distributed_type.value})"
    precision = {"no": "float32"}.get(accelerator.mixed_precision, accelerator.mixed_precision)
    return f"{device.type} {name}{threads}, {precision}, {accelerator.num_processes} process{'es' * (accelerator.num_processes > 1)}{kind}"
