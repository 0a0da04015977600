"""Shorter training steps on the CPU: one entry for the loop, ``fast_training``.

docs/benchmarks.md has what each part saves. The package uses of torch, beyond its public interface:

- ``aten::bernoulli_.float`` and ``Library._destroy``, in dropout.py: it replaces the operator, and ends that.
  Without them, masks are drawn by torch, and a step takes a tenth longer.
- ``torch.ops.mkldnn._linear_pointwise`` and ``_is_mkldnn_bf16_supported``, in linear.py and bf16.py: a
  product by oneDNN, and whether it computes bf16. Without them, training in bf16, and on AMD's processors
  with AVX-512, fails: use ``torch.nn.functional.linear``.

``tests/stages/train/cpu/several_modules/test_internals.py`` fails if one of them changes.
"""

import contextlib
from collections.abc import Iterator

from accelerate import Accelerator
from torch import nn

from stages.train.cpu.attention import fast_attention
from stages.train.cpu.bf16 import use_bf16
from stages.train.cpu.dropout import fast_dropout_masks
from stages.train.cpu.linear import onednn_is_faster, use_onednn
from stages.train.cpu.waits import short_waits_on_shared_cores


def uses_bf16_layers(accelerator: Accelerator, compiled: bool) -> bool:
    """Return True if ``fast_training`` lets a model compute in bf16.

    It does so on a CPU, unless the weights are sharded or the model is compiled.
    """
    in_bf16 = accelerator.device.type == "cpu" and accelerator.mixed_precision == "bf16"
    is_whole = accelerator.distributed_type.value in ("NO", "MULTI_CPU")
    return in_bf16 and is_whole and not compiled


@contextlib.contextmanager
def fast_training(accelerator: Accelerator, model: nn.Module, compiled: bool) -> Iterator[None]:
    """Until the block ends, let a model train in the fastest way that is known for the processor.

    On a GPU, nothing changes. The layers of the model stay changed; names, values and types of its weights do
    not change.
    """
    if accelerator.device.type != "cpu":
        yield
        return
    if uses_bf16_layers(accelerator, compiled):
        use_bf16(model)
    elif accelerator.mixed_precision == "no" and not compiled and onednn_is_faster():
        use_onednn(model)
    with short_waits_on_shared_cores(), fast_dropout_masks(), fast_attention():
        yield
