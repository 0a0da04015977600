"""Device, precision, processes and sharding: what accelerate set up, and what it leaves to set or check.

Every use of accelerate's private or plugin attributes is in this module.
"""

import contextlib
import os
import platform
from collections import Counter
from importlib.metadata import version
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from torch import nn

from tuneline.core.params import Params
from tuneline.core.runtime.errors import ParamsError, StageError
from tuneline.core.stage.launch import launch_file, needs_gpu
from tuneline.model.linear.pooled_classifier import start_threads

TRAINING_LIBRARIES = ("accelerate", "numpy", "peft", "safetensors", "torch", "transformers")
"""Libraries that the outs depend on."""


def create_accelerator(params: Params) -> Accelerator:
    """Create the accelerator from the launch configuration, and check what it set up.

    The training loop steps the schedule. With accelerate's default (``step_scheduler_with_optimizer=True``)
    it would be stepped once per process.
    """
    precision: str | None = params.train.mixed_precision
    if precision == "auto":
        precision = None  # accelerate takes what the launcher has chosen
    try:
        accelerator = Accelerator(
            mixed_precision=precision,
            step_scheduler_with_optimizer=False,
        )
    except ValueError as error:
        raise ParamsError(f"train.mixed_precision: {error}", "'no' works on every device.") from None

    # on a CPU, accelerate would accept fp16 and compute in float32
    on_cpu = accelerator.device.type == "cpu"
    if on_cpu and accelerator.mixed_precision == "fp16":
        raise ParamsError(
            "fp16 needs a GPU; this run is on the CPU.", "Set train.mixed_precision to bf16 or 'no'."
        )
    if on_cpu and needs_gpu(params.train.launch):
        raise StageError(
            f"{launch_file(params.train.launch)} is for a GPU, but torch {torch.__version__} finds none.",
            "`nvidia-smi` shows the driver. On the CPU: train.launch: cpu.",
        )

    # what accelerate leaves to set
    start_threads(torch.get_num_threads())
    enable_fsdp_on_cpu(accelerator)
    return accelerator


def sharding(accelerator: Accelerator) -> dict[str, Any] | None:
    """Return what determines the files of a sharded checkpoint.

    FSDP saves a part per process: a run with another number of processes starts anew. The result is ``None``
    if each process holds the whole state, as with DDP.
    """
    if accelerator.distributed_type != DistributedType.FSDP:
        return None
    settings = {name: value for name, value in os.environ.items() if name.startswith("FSDP_")}
    return {"processes": accelerator.num_processes, "settings": settings}


def describe_layout(accelerator: Accelerator, micro_batch_size: int) -> str:
    """Return all that determines how sums are rounded: with another layout, a model has other bytes."""
    versions = [f"{library} {version(library)}" for library in TRAINING_LIBRARIES]
    return (
        f"{describe_devices(accelerator)}, {torch.backends.cpu.get_cpu_capability()}, micro_batch_size"
        f" {micro_batch_size}, Python {platform.python_version()}, {', '.join(versions)}"
    )


def describe_devices(accelerator: Accelerator) -> str:
    """Return one line with device type and name, precision, and number of processes."""
    device = accelerator.device
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    else:
        name = f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"
    precision = accelerator.mixed_precision
    if precision == "no":
        precision = "float32"
    processes = f"{accelerator.num_processes} process(es)"
    return f"{device.type} {name}, {precision}, {processes}, {accelerator.distributed_type.value}"


def enable_fsdp_on_cpu(accelerator: Accelerator) -> None:
    """Let FSDP run on CPUs, so that a sharded run can be tried without a GPU.

    accelerate 1.15 honours ``ACCELERATE_USE_FSDP`` on GPUs only: two CPU processes would train without
    sharding. It reads the distributed type from the state shared by all its objects, which has no public
    setter.
    """
    requested = os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"
    if not requested or accelerator.distributed_type != DistributedType.MULTI_CPU:
        return
    accelerator.state.distributed_type = DistributedType.FSDP
    PartialState._shared_state["distributed_type"] = DistributedType.FSDP
    accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin()


def wrap_layers(accelerator: Accelerator, model: nn.Module) -> None:
    """Tell FSDP which layers to wrap: a launch configuration does not know the model.

    They are of the most common class in the module lists of the model.
    """
    if accelerator.distributed_type != DistributedType.FSDP:
        return
    plugin = accelerator.state.fsdp_plugin
    names: Counter[str] = Counter()
    for module in model.modules():
        if isinstance(module, nn.ModuleList):
            names.update(type(member).__name__ for member in module)
    if plugin.transformer_cls_names_to_wrap is None:
        plugin.transformer_cls_names_to_wrap = [names.most_common(1)[0][0]]


def gradient_synchronization(
    accelerator: Accelerator, model: nn.Module, last: bool
) -> contextlib.AbstractContextManager[None]:
    """Return the context of a backward pass, which synchronizes gradients only if ``last`` is True."""
    if last:
        return contextlib.nullcontext()
    context: contextlib.AbstractContextManager[None] = accelerator.no_sync(model)
    return context


def clip_gradients(accelerator: Accelerator, model: nn.Module, optimizer: Any, max_norm: float) -> float:
    """Limit the norm of all gradients as ``torch.nn.utils.clip_grad_norm_``, and return it as it was.

    On the CPU, fused optimizers divide gradients by ``grad_scale`` while they read them, which saves a pass
    over them, and a dot product is twice as fast as torch's norm. FSDP gives a DTensor.
    """
    if accelerator.device.type != "cpu" or sharding(accelerator) is not None:
        norm: Any = accelerator.clip_grad_norm_(model.parameters(), max_norm)
        if hasattr(norm, "full_tensor"):
            norm = norm.full_tensor()
        return float(norm)

    # sum of squares by gradient, then over all of them
    squares = []
    for parameter in model.parameters():
        if parameter.grad is not None:
            gradient = parameter.grad.flatten()
            squares.append(torch.dot(gradient, gradient))
    total = torch.stack(squares).sum().sqrt()

    # the optimizer divides by it; 1 leaves small gradients as they are
    optimizer.optimizer.grad_scale = torch.clamp(total / max_norm, min=1.0)
    return float(total)
