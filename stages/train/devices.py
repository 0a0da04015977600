"""Device, precision, processes and sharding: what was requested is compared with what accelerate set up.

Every use of accelerate's private or plugin attributes is in this module.
"""

import contextlib
import os
import platform
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import SAFE_WEIGHTS_NAME, DistributedType, FullyShardedDataParallelPlugin
from safetensors.torch import load_model
from torch import Tensor, nn

from stages.train.cpu.linear import onednn_is_faster
from tuneline.core.hashes import file_hash
from tuneline.core.launch import launch_file, needs_gpu, read_launch
from tuneline.core.machine import processor_words
from tuneline.core.training_devices import DevicesUsed, TrainingSegment
from tuneline.params import Params
from tuneline.paths import REPORTS
from tuneline.runtime.errors import ParamsError, StageError

LIVE = REPORTS / "live"
_LAUNCH_SETTINGS = ("FSDP_", "ACCELERATE_DEEPSPEED_", "ACCELERATE_GRADIENT_", "MEGATRON_LM_")


def create_accelerator(params: Params) -> Accelerator:
    """Create the accelerator from the launch configuration, and check what it set up.

    The training loop steps the schedule. With accelerate's default (``step_scheduler_with_optimizer=True``)
    it would be stepped once per process.
    """
    check_trackers(params.run.trackers)
    precision: str | None = params.train.mixed_precision
    if precision == "auto":
        precision = None  # accelerate takes what the launcher has chosen
    try:
        accelerator = Accelerator(
            mixed_precision=precision,
            step_scheduler_with_optimizer=False,
            log_with=list(params.run.trackers) or None,
            project_dir=LIVE,
        )
    except ValueError as error:
        raise ParamsError(f"train.mixed_precision: {error}", "'no' works on every device.") from None

    # what accelerate leaves to check or to set
    check_precision(accelerator.mixed_precision, accelerator.device)
    enable_fsdp_on_cpu(accelerator)
    accelerator.register_save_state_pre_hook(drop_frozen_weights)
    accelerator.register_load_state_pre_hook(load_trained_weights)

    # float32 products on tensor cores, with 10 bits of the mantissa
    if accelerator.device.type == "cuda" and params.train.tf32:
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
    return accelerator


def frozen_weights(model: nn.Module) -> frozenset[str]:
    """Return the names of the parameters that are not trained."""
    # with duplicates: a shared parameter is in the weights by each of its names
    parameters = model.named_parameters(remove_duplicate=False)
    return frozenset(name for name, parameter in parameters if not parameter.requires_grad)


def drop_frozen_weights(models: list[nn.Module], weights: list[dict[str, Tensor]], _folder: str) -> None:
    """Leave frozen weights out of a checkpoint.

    A run that resumes has them from ``models/base`` or from the seed. ``weights`` is empty with FSDP and
    DeepSpeed, which save whole models themselves.
    """
    for model, values in zip(models, weights, strict=False):
        for name in frozen_weights(model):
            values.pop(name, None)


def load_trained_weights(models: list[nn.Module], folder: str) -> None:
    """Load what ``drop_frozen_weights`` has left, in the place of accelerate, which expects all weights."""
    for model in models:
        missing, unexpected = load_model(model, Path(folder) / SAFE_WEIGHTS_NAME, strict=False)
        unmatched = set(missing).union(unexpected) - frozen_weights(model)
        if unmatched:
            raise RuntimeError(f"{folder}: {min(unmatched)} is missing in the checkpoint or in the model.")
    models.clear()  # accelerate loads the models that are left in the list


def check_precision(precision: str, device: torch.device) -> None:
    """Refuse a precision that the device does not support.

    On a CPU, accelerate would accept fp16 and compute in float32.
    """
    if precision not in ("no", "fp16", "bf16"):
        raise ParamsError(f"mixed precision {precision!r} is not supported.", "Choose no, fp16 or bf16.")
    if precision == "fp16" and device.type == "cpu":
        raise ParamsError(
            "fp16 needs a GPU; this run is on the CPU.", "Set train.mixed_precision to bf16 or 'no'."
        )
    if precision != "bf16" or device.type != "cuda":
        return
    if not torch.cuda.is_bf16_supported(including_emulation=False):
        name = torch.cuda.get_device_name(device)
        raise ParamsError(
            f"{name} does not support bf16 (Ampere and later GPUs do).",
            "Set train.mixed_precision to fp16 or 'no'.",
        )


def check_devices(launch: str, accelerator: Accelerator) -> None:
    """Check that the running processes and their device match the launch configuration.

    The result would be attributed to another configuration: ``torchrun`` and ``accelerate launch`` start the
    training with any of them, and accelerate uses the CPU if torch finds no GPU.
    """
    requested = read_launch(launch).get("num_processes")
    running = accelerator.num_processes
    if isinstance(requested, int) and running != requested:
        verb = "is" if running == 1 else "are"
        raise StageError(
            f"{launch_file(launch)} requests {_count_processes(requested)}, but {running} {verb} running.",
            "Start the training with `dvc repro`, or correct num_processes in that file.",
        )
    if accelerator.device.type == "cpu" and needs_gpu(launch):
        raise StageError(
            f"{launch_file(launch)} is for a GPU, but torch {torch.__version__} finds none.",
            "`nvidia-smi` shows the driver, `tuneline doctor` the build of torch. On the CPU: train.launch:"
            " cpu.",
        )


def _count_processes(count: int) -> str:
    return f"{count} process" if count == 1 else f"{count} processes"


def sharding(accelerator: Accelerator) -> dict[str, Any] | None:
    """Return what determines the files of a sharded checkpoint.

    FSDP, DeepSpeed and Megatron-LM save a part per process: a run with another number of processes starts
    anew. The result is ``None`` if each process holds the whole state, as with DDP.
    """
    kind = accelerator.distributed_type.value
    if kind == DistributedType.NO.value or kind.startswith("MULTI_"):
        return None
    return {"type": kind, "processes": accelerator.num_processes, "settings": launch_settings()}


def launch_settings() -> dict[str, str]:
    """Return the environment variables that accelerate's launcher sets for FSDP, DeepSpeed or Megatron-LM.

    Where one names a configuration file, the value is the hash of the file. Two of their configurations write
    checkpoints that differ in format or cannot be exchanged.
    """
    settings = {}
    for name, value in os.environ.items():
        if not name.startswith(_LAUNCH_SETTINGS):
            continue
        if name.endswith("CONFIG_FILE") and Path(value).is_file():
            settings[name] = file_hash(Path(value))
        else:
            settings[name] = value
    return settings


INSTRUCTIONS = (
    "ATEN_CPU_CAPABILITY",
    "DNNL_MAX_CPU_ISA",
    "ONEDNN_MAX_CPU_ISA",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
)
"""Environment variables that limit the instructions of torch, oneDNN and MKL.

Each set of instructions rounds sums in its own way.
"""


def processor_kind(device: torch.device, precision: str) -> str:
    """Return the name of a GPU, or the instructions of a CPU that determine how sums are rounded.

    These are the instructions that torch uses, and the variables that limit its libraries.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    kinds = [torch.backends.cpu.get_cpu_capability()]
    if precision == "bf16" and "amx_bf16" in processor_words():
        kinds.append("AMX")
    if precision == "no" and onednn_is_faster():
        kinds.append("linear layers by oneDNN")
    for name in INSTRUCTIONS:
        value = os.environ.get(name)
        if value:
            kinds.append(f"{name}={value}")
    return ", ".join(kinds)


def devices_used(segments: Sequence[TrainingSegment]) -> DevicesUsed:
    """Return the devices that this process has trained on, with the segments of the run if it has several."""
    state = AcceleratorState()
    return DevicesUsed(
        type=state.device.type,
        precision=state.mixed_precision,
        processes=state.num_processes,
        distribution=state.distributed_type.value,
        segments=list(segments) if len(segments) > 1 else None,
    )


def describe_devices(accelerator: Accelerator) -> str:
    """Return one line with device type and name, precision, and number of processes."""
    device = accelerator.device
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    else:
        name = platform.processor() or platform.machine()
    if device.type == "cpu":
        name += f", {torch.get_num_threads()} threads"

    precision = accelerator.mixed_precision
    if precision == "no":
        precision = "float32"

    processes = _count_processes(accelerator.num_processes)
    if accelerator.distributed_type != DistributedType.NO:
        processes += f" ({accelerator.distributed_type.value})"
    return f"{device.type} {name}, {precision}, {processes}"


def compile_in_place(model: nn.Module, backend: str) -> None:
    """Compile the forward pass for any sequence length, without renaming the weights."""
    # list_backends hides the backends for debugging
    available = [*torch.compiler.list_backends(), "aot_eager", "eager"]
    if backend not in available:
        raise ParamsError(
            f"train.compile: torch does not have a backend {backend!r}.",
            f"Choose one of {', '.join(available)}.",
        )
    model.compile(backend=backend, dynamic=True)


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


def configure_plugins(
    accelerator: Accelerator, model: nn.Module, micro_batch_size: int, max_grad_norm: float | None
) -> None:
    """Set what FSDP and DeepSpeed need beyond the launch configuration.

    FSDP needs the layers to wrap, DeepSpeed the micro-batch size and the norm at which it clips. accelerate
    1.15 derives them from a dataloader or from the launch configuration; this loop passes it no dataloader,
    and a launch configuration does not know the model. So the plugins' attributes are set before ``prepare``
    reads them.
    """
    if accelerator.distributed_type == DistributedType.FSDP:
        plugin = accelerator.state.fsdp_plugin
        if plugin.transformer_cls_names_to_wrap is None:
            plugin.transformer_cls_names_to_wrap = [transformer_layer_class(model)]
    if accelerator.distributed_type == DistributedType.DEEPSPEED:
        config = accelerator.state.deepspeed_plugin.deepspeed_config
        config["train_micro_batch_size_per_gpu"] = micro_batch_size
        config["gradient_clipping"] = max_grad_norm or 0.0


def transformer_layer_class(model: nn.Module) -> str:
    """Return the class name of the model's layers: the most common one in its module lists."""
    names: Counter[str] = Counter()
    for module in model.modules():
        if isinstance(module, nn.ModuleList):
            names.update(type(member).__name__ for member in module)
    return names.most_common(1)[0][0]


def gradient_synchronization(
    accelerator: Accelerator, model: nn.Module, last: bool
) -> contextlib.AbstractContextManager[None]:
    """Return the context of a backward pass, which synchronizes gradients only if ``last`` is True.

    DeepSpeed does not support ``no_sync``. In accelerate 1.15 its engine takes an optimizer step in the
    backward pass in which ``gradient_state.sync_gradients`` is True; the flag has no public setter, because
    accelerate sets it from its own dataloaders.
    """
    if accelerator.distributed_type == DistributedType.DEEPSPEED:
        accelerator.gradient_state._set_sync_gradients(last)
        return contextlib.nullcontext()
    if last:
        return contextlib.nullcontext()
    context: contextlib.AbstractContextManager[None] = accelerator.no_sync(model)
    return context


def check_trackers(names: Sequence[str]) -> None:
    """Refuse a tracker that is not installed: accelerate would skip it without a warning."""
    for name in names:
        if find_spec(name) is None:
            raise ParamsError(
                f"run.trackers: {name} is not installed.",
                f"pip install {name}, or remove it from run.trackers.",
            )


def several_machines() -> bool:
    """Return True if processes of this training run on other machines, as torchrun and mpirun count them."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    processes_here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return processes > processes_here


def clip_gradients(accelerator: Accelerator, model: nn.Module, optimizer: Any, max_norm: float) -> float:
    """Limit the norm of all gradients as ``torch.nn.utils.clip_grad_norm_``, and return it as it was.

    On the CPU, fused optimizers divide gradients by ``grad_scale`` while they read them, which saves a pass
    over them, and a dot product is twice as fast as torch's norm. FSDP gives a DTensor, DeepSpeed ``None``.
    """
    on_plain_cpu = accelerator.device.type == "cpu" and sharding(accelerator) is None
    if not on_plain_cpu or not optimizer.defaults.get("fused"):
        norm: Any = accelerator.clip_grad_norm_(model.parameters(), max_norm)
        if hasattr(norm, "full_tensor"):
            norm = norm.full_tensor()
        return float(norm or 0.0)

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
