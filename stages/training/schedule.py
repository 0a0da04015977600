"""Step arithmetic and the learning rate's schedule."""

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from transformers import get_scheduler

from stages.params import TrainParams


def total_steps(params: TrainParams, groups_per_epoch: int) -> int:
    """Optimizer steps of the whole run."""
    return params.max_steps if params.max_steps is not None else groups_per_epoch * (params.epochs or 0)


def warmup_steps(params: TrainParams, total: int) -> int:
    """Optimizer steps over which the learning rate rises."""
    return params.warmup_steps if params.warmup_steps is not None else math.ceil(total * (params.warmup_ratio or 0.0))


def build_schedule(optimizer: Optimizer, params: TrainParams, total: int) -> LRScheduler:
    """Builds the schedule; it is stepped once per optimizer step."""
    return get_scheduler(params.schedule, optimizer, warmup_steps(params, total), total)
