"""What happens when memory does not suffice."""

from collections.abc import Callable
from typing import TypeVar

from accelerate import Accelerator
from accelerate.utils import find_executable_batch_size
from accelerate.utils.memory import should_reduce_batch_size

from tuneline.errors import ParamsError

T = TypeVar("T")


def halving(attempt: Callable[[int], T], micro_batch_size: int, accelerator: Accelerator) -> T:
    """Calls ``attempt`` with a micro batch that is halved each time it runs out of memory.

    The group with the longest row comes first in a run, so that this shows in the first step. Of several processes one
    may run out alone while the others wait for its gradients, so there the run ends and says what to set.

    Raises:
        ParamsError: Not even one example fits; or one of several processes ran out of memory.
    """
    size = micro_batch_size

    def halve() -> int:
        nonlocal size
        size //= 2
        accelerator.free_memory()
        print(f"train: out of memory; micro_batch_size is now {size}, global_batch_size as before", flush=True)
        return size

    def alone(batch_size: int) -> T:
        return attempt(batch_size)

    try:
        if accelerator.num_processes > 1:
            return attempt(size)
        result: T = find_executable_batch_size(alone, starting_batch_size=size, reduce_batch_size_fn=halve)()
    except RuntimeError as error:
        if size == 0 or should_reduce_batch_size(error):
            raise ParamsError(
                f"Out of memory with train.micro_batch_size {max(size, 1)}.",
                "Halve it (global_batch_size can stay), lower tokenize.max_length, or set train.gradient_checkpointing.",
            ) from None
        raise
    return result
