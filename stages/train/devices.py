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

from stages.train.cpu.bf16 import mkl_gemm
from stages.train.cpu.linear import onednn_is_faster
from tuneline.core.errors import ParamsError, StageError
from tuneline.core.hashes import file_hash
from tuneline.core.launch import launch_file, needs_gpu, read_launch
from tuneline.core.paths import REPORTS
from tuneline.core.training_devices import DevicesUsed, TrainingSegment
from tuneline.params import Params

LIVE = REPORTS / "live"
_LAUNCH_SETTINGS = ("FSDP_", "ACCELERATE_DEEPSPEED_", "ACCELERATE_GRADIENT_", "MEGATRON_LM_")


def create_accelerator(params: Params) -> Accelerator:
    """Create the accelerator from the launch configuration, and check what it set up.

    The training loop steps the schedule. With accelerate's default (``step_scheduler_with_optimizer=True``)
    it would be stepped once per process.
    """
    check_trackers(params.run.trackers)
    requested = params.train.mixed_precision
    try:
        accelerator = Accelerator(
            mixed_precision=None if requested == "auto" else requested,  # None: what the launcher has chosen
            step_scheduler_with_optimizer=False,
            log_with=list(params.run.trackers) or None,
            project_dir=LIVE,
        )
    except ValueError as error:
        raise ParamsError(f"train.mixed_precision: {error}", "'no' works on every device.") from None
    check_precision(accelerator.mixed_precision, accelerator.device)
    enable_fsdp_on_cpu(accelerator)
    accelerator.register_save_state_pre_hook(drop_frozen_weights)
    accelerator.register_load_state_pre_hook(load_trained_weights)
    if accelerator.device.type == "cuda" and params.train.tf32:
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
    return accelerator


def frozen_weights(model: nn.Module) -> frozenset[str]:
    """Return the names of the parameters that are not trained."""
    return frozenset(
        name for name, weight in model.named_parameters(remove_duplicate=False) if not weight.requires_grad
    )


def drop_frozen_weights(models: list[nn.Module], weights: list[dict[str, Tensor]], _folder: str) -> None:
    """Leave frozen weights out of a checkpoint: a run that resumes has them from ``models/base`` or from the seed.

    ``weights`` is empty with FSDP and DeepSpeed, which save whole models themselves.
    """
    for model, values in zip(models, weights, strict=False):
        for name in frozen_weights(model):
            values.pop(name, None)


def load_trained_weights(models: list[nn.Module], folder: str) -> None:
    """Load what ``drop_frozen_weights`` has left, in the place of accelerate, which expects all weights."""
    for model in models:
        missing, unexpected = load_model(model, Path(folder) / SAFE_WEIGHTS_NAME, strict=False)
        if wrong := {*missing, *unexpected} - frozen_weights(model):
            raise RuntimeError(f"{folder}: {min(wrong)} is missing in the checkpoint or in the model.")
    models.clear()


def check_precision(precision: str, device: torch.device) -> None:
    """Refuse a precision that the device does not support; on a CPU, accelerate accepts fp16 and computes in float32."""
    if precision not in ("no", "fp16", "bf16"):
        raise ParamsError(f"mixed precision {precision!r} is not supported.", "Choose no, fp16 or bf16.")
    if precision == "fp16" and device.type == "cpu":
        raise ParamsError(
            "fp16 needs a GPU; this run is on the CPU.", "Set train.mixed_precision to bf16 or 'no'."
        )
    if (
        precision == "bf16"
        and device.type == "cuda"
        and not torch.cuda.is_bf16_supported(including_emulation=False)
    ):
        name = torch.cuda.get_device_name(device)
        raise ParamsError(
            f"{name} does not support bf16 (Ampere and later GPUs do).",
            "Set train.mixed_precision to fp16 or 'no'.",
        )


def check_devices(launch: str, accelerator: Accelerator) -> None:
    """Compare the running processes and their device with the launch configuration: the result would be attributed to another.

    ``torchrun`` and ``accelerate launch`` start the training with any configuration, and accelerate uses the
    CPU if torch finds no GPU.
    """
    requested = read_launch(launch).get("num_processes")
    running = accelerator.num_processes
    if isinstance(requested, int) and running != requested:
        raise StageError(
            f"{launch_file(launch)} requests {requested} process{'es' * (requested != 1)}, but {running} "
            f"{'is' if running == 1 else 'are'} running.",
            "Start the training with `dvc repro`, or correct num_processes in that file.",
        )
    if accelerator.device.type == "cpu" and needs_gpu(launch):
        raise StageError(
            f"{launch_file(launch)} is for a GPU, but torch {torch.__version__} finds none.",
            "`nvidia-smi` shows the driver, `tuneline doctor` the build of torch. On the CPU: train.launch:"
            " cpu.",
        )


def sharding(accelerator: Accelerator) -> dict[str, Any] | None:
    """Return what determines the files of a sharded checkpoint; ``None`` if each process holds the whole state, as with DDP.

    FSDP, DeepSpeed and Megatron-LM save a part per process: a run with another number of processes starts
    anew.
    """
    kind = accelerator.distributed_type.value
    if kind == DistributedType.NO.value or kind.startswith("MULTI_"):
        return None
    return {"type": kind, "processes": accelerator.num_processes, "settings": launch_settings()}


def launch_settings() -> dict[str, str]:
    """Return what accelerate's launcher has set up for FSDP, DeepSpeed or Megatron-LM: variables, and the hash of a file that one names.

    Two of their configurations write checkpoints that differ in format or cannot be exchanged.
    """
    settings = {name: value for name, value in os.environ.items() if name.startswith(_LAUNCH_SETTINGS)}
    files = {name: Path(value) for name, value in settings.items() if name.endswith("CONFIG_FILE")}
    return {**settings, **{name: file_hash(path) for name, path in files.items() if path.is_file()}}


INSTRUCTIONS = (
    "ATEN_CPU_CAPABILITY",
    "DNNL_MAX_CPU_ISA",
    "ONEDNN_MAX_CPU_ISA",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
)
"""Environment variables that limit the instructions of torch, oneDNN and MKL, each of which rounds sums in its own way."""


def processor_kind(device: torch.device, precision: str) -> str:
    """Return the name of a GPU, or the instructions of the CPU that torch uses and the variables that limit those of its libraries."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    limits = [f"{name}={os.environ[name]}" for name in INSTRUCTIONS if os.environ.get(name)]
    kinds = [torch.backends.cpu.get_cpu_capability()]
    if precision == "bf16" and mkl_gemm() is not None:
        kinds.append("AMX")
    if precision == "no" and onednn_is_faster():
        kinds.append("linear layers by oneDNN")
    return ", ".join([*kinds, *limits])


def devices_used(segments: Sequence[TrainingSegment]) -> DevicesUsed:
    """Return the devices that this process has trained on, and the segments of the run if there are several."""
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
    name = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"{platform.processor() or platform.machine()}"
    )
    threads = f", {torch.get_num_threads()} threads" if device.type == "cpu" else ""
    kind = (
        ""
        if accelerator.distributed_type == DistributedType.NO
        else f" ({accelerator.distributed_type.value})"
    )
    precision = {"no": "float32"}.get(accelerator.mixed_precision, accelerator.mixed_precision)
    return (
        f"{device.type} {name}{threads}, {precision}, {accelerator.num_processes}"
        f" process{'es' * (accelerator.num_processes > 1)}{kind}"
    )


def compile_in_place(model: nn.Module, backend: str) -> None:
    """Compile the forward pass with ``torch.compile`` for any sequence length, without renaming the weights."""
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
    """Set what FSDP and DeepSpeed need beyond the launch configuration: layers to wrap, micro-batch size, clipping.

    accelerate 1.15 derives them from a dataloader or from the launch configuration; this loop passes it no
    dataloader, and a launch configuration does not know the model. So the plugins' attributes are set before
    ``prepare`` reads them.
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
    """Return the class name of the model's layers: the most common one among the members of its module lists."""
    members = [member for module in model.modules() if isinstance(module, nn.ModuleList) for member in module]
    return Counter(type(member).__name__ for member in members).most_common(1)[0][0]


def gradient_synchronization(
    accelerator: Accelerator, model: nn.Module, last: bool
) -> contextlib.AbstractContextManager[None]:
    """Return the context of a backward pass that synchronizes gradients between processes only if ``last`` is True.

    DeepSpeed does not support ``no_sync``. In accelerate 1.15 its engine takes an optimizer step in the
    backward pass in which ``gradient_state.sync_gradients`` is True; the flag has no public setter, because
    accelerate sets it from its own dataloaders.
    """
    if accelerator.distributed_type == DistributedType.DEEPSPEED:
        accelerator.gradient_state._set_sync_gradients(last)
        return contextlib.nullcontext()
    context: contextlib.AbstractContextManager[None] = (
        contextlib.nullcontext() if last else accelerator.no_sync(model)
    )
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
    everywhere, here = os.environ.get("WORLD_SIZE", "1"), os.environ.get("LOCAL_WORLD_SIZE", "1")
    return int(everywhere) > int(here)


def clip_gradients(accelerator: Accelerator, model: nn.Module, optimizer: Any, max_norm: float) -> float:
    """Limit the norm of all gradients as ``torch.nn.utils.clip_grad_norm_``, and return it as it was.

    On the CPU, fused optimizers divide gradients by ``grad_scale`` while they read them, which saves a pass
    over them, and a dot product is twice as fast as torch's norm. FSDP gives a DTensor, DeepSpeed ``None``.
    """
    if (
        accelerator.device.type != "cpu"
        or sharding(accelerator) is not None
        or not optimizer.defaults.get("fused")
    ):
        norm: Any = accelerator.clip_grad_norm_(model.parameters(), max_norm)
        return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm or 0.0)
    gradients = [parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None]
    total = torch.stack([torch.dot(gradient, gradient) for gradient in gradients]).sum().sqrt()
    optimizer.optimizer.grad_scale = torch.clamp(total / max_norm, min=1.0)
    return float(total)
