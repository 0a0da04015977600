"""Step arithmetic and the learning rate's schedule."""

import math
from typing import Any

from torch.optim import Optimizer
from transformers import SchedulerType, get_scheduler

from tuneline.errors import ParamsError
from tuneline.params import TrainParams

BY_LOSS = (SchedulerType.REDUCE_ON_PLATEAU.value, SchedulerType.GREEDY.value)
"""Schedules that look at the validation loss, and step when there is a new one."""


def total_steps(params: TrainParams, groups_per_epoch: int) -> int:
    """Optimizer steps of the whole run."""
    return params.max_steps if params.max_steps is not None else groups_per_epoch * (params.epochs or 0)


def warmup_steps(params: TrainParams, total: int) -> int:
    """Optimizer steps over which the learning rate rises."""
    return params.warmup_steps if params.warmup_steps is not None else math.ceil(total * (params.warmup_ratio or 0.0))


def build_schedule(optimizer: Optimizer, params: TrainParams, total: int) -> Any:
    """Builds the schedule. The loop steps it: once per optimizer step, or once per evaluation for those of ``BY_LOSS``.

    Raises:
        ParamsError: ``train.schedule_options`` are not what this schedule takes.
    """
    try:
        return get_scheduler(params.schedule, optimizer, warmup_steps(params, total), total, dict(params.schedule_options))
    except (TypeError, ValueError) as error:
        raise ParamsError(
            f"train.schedule_options: {params.schedule} does not take {params.schedule_options}: {error}",
            "They are the keyword arguments of the schedule's function in transformers.optimization.",
        ) from None
