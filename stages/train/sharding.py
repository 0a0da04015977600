"""What FSDP and DeepSpeed need to be told beyond their launch configuration."""

import os
from collections import Counter

from accelerate import Accelerator
from accelerate.state import PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from torch import nn


def shard_on_cpu(accelerator: Accelerator) -> None:
    """Makes FSDP run on CPUs too, for trying a sharded run out without a GPU.

    accelerate 1.15 takes ``ACCELERATE_USE_FSDP`` for several GPUs only; two CPU processes would train unsharded.
    """
    wanted = os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"
    if not wanted or accelerator.distributed_type != DistributedType.MULTI_CPU:
        return
    accelerator.state.distributed_type = DistributedType.FSDP
    PartialState._shared_state["distributed_type"] = DistributedType.FSDP
    accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin()


def tell_plugins(accelerator: Accelerator, model: nn.Module, micro_batch_size: int, max_grad_norm: float | None) -> None:
    """Names the layers to shard, the micro batch and the clipping; launch configurations then need not know the run.

    Args:
        accelerator: Before it prepares the model.
        model: To be prepared.
        micro_batch_size: Examples in one forward pass of one process.
        max_grad_norm: DeepSpeed clips by itself.
    """
    if accelerator.distributed_type == DistributedType.FSDP:
        plugin = accelerator.state.fsdp_plugin
        if plugin.transformer_cls_names_to_wrap is None:
            plugin.transformer_cls_names_to_wrap = [layer_class(model)]
    if accelerator.distributed_type == DistributedType.DEEPSPEED:
        config = accelerator.state.deepspeed_plugin.deepspeed_config
        config["train_micro_batch_size_per_gpu"] = micro_batch_size
        config["gradient_clipping"] = max_grad_norm or 0.0


def layer_class(model: nn.Module) -> str:
    """Name of the class of the model's layers: the commonest among the members of its lists of modules."""
    members = [member for module in model.modules() if isinstance(module, nn.ModuleList) for member in module]
    return Counter(type(member).__name__ for member in members).most_common(1)[0][0]
