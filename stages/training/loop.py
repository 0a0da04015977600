"""The training loop: groups of examples in, optimizer steps out."""

import contextlib
import math
from dataclasses import dataclass, field

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from tqdm import tqdm

from stages.errors import StageError
from stages.params import TrainParams
from stages.scoring.formulas import metrics_of
from stages.training.evaluation import predict
from stages.training.feeding import Feed
from stages.training.losses import Loss
from stages.training.order import Order, Rows, share
from stages.training.progress import Progress


@dataclass
class Run:
    """Everything a run works with."""

    accelerator: Accelerator
    params: TrainParams
    model: nn.Module
    optimizer: Optimizer
    schedule: LRScheduler
    order: Order
    loss: Loss
    train: Feed
    validation: Feed
    total_steps: int
    progress: Progress = field(default_factory=Progress)
    best_weights: dict[str, torch.Tensor] = field(default_factory=dict)


def fit(run: Run) -> None:
    """Trains from where ``run.progress`` stands to the end."""
    progress, per_epoch = run.progress, run.order.groups_per_epoch
    with tqdm(total=run.total_steps, initial=progress.step, unit="step", disable=None) as bar:
        while progress.step < run.total_steps:
            epoch, place = divmod(progress.step, per_epoch)
            for rows in run.order.epoch(epoch)[place : place + run.total_steps - progress.step]:
                note_step(run, *train_group(run, rows))
                bar.update()
            evaluate(run)


def train_group(run: Run, rows: Rows) -> tuple[float, float, float]:
    """One optimizer step: the loss is the mean over the group's examples, however they are shared out.

    Gradients are averaged over the processes when they are synchronized, so each process scales its part up by their
    number. They are synchronized once, with the last micro batch.

    Returns:
        The group's loss, the learning rate it was taken with, and the norm of the gradient before clipping.
    """
    accelerator = run.accelerator
    shares = share(rows, run.params.micro_batch_size, accelerator.num_processes, accelerator.process_index)
    whole = run.loss.total_weight(run.train.split.labels[rows])
    total = torch.zeros((), device=accelerator.device)
    for index, own in enumerate(shares):
        _seed(run, index)
        last = index == len(shares) - 1
        with contextlib.nullcontext() if last else accelerator.no_sync(run.model):
            logits = run.model(**run.train.inputs(own)).logits[: len(own)]
            loss = run.loss.per_example(logits, run.train.labels(own)).sum() / whole
            accelerator.backward(loss * accelerator.num_processes)
        total += loss.detach()
    value = float(accelerator.reduce(total, "sum"))
    norm = float(accelerator.clip_grad_norm_(run.model.parameters(), run.params.max_grad_norm or math.inf))
    if not math.isfinite(value):
        raise StageError(f"The loss of step {run.progress.step + 1} is {value}; rows of the batch: {rows.tolist()}.")
    rate = run.optimizer.param_groups[0]["lr"]
    run.optimizer.step()
    run.schedule.step()
    run.optimizer.zero_grad()
    return value, rate, norm


def _seed(run: Run, micro_batch: int) -> None:
    """Dropout is a function of (seed, step, micro batch, process): nothing that was interrupted can shift it."""
    place = (run.order.seed, run.progress.step, micro_batch, run.accelerator.process_index)
    torch.manual_seed(int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0]))


def note_step(run: Run, loss: float, rate: float, norm: float) -> None:
    """Counts the step, and adds a row to the training curve when it is time."""
    progress = run.progress
    progress.step += 1
    progress.losses.append(loss)
    if progress.step % run.params.log_every_steps == 0 or progress.step == run.total_steps:
        progress.logged.append((progress.step, math.fsum(progress.losses) / len(progress.losses), rate, norm))
        progress.losses.clear()


def evaluate(run: Run) -> None:
    """Scores the validation split, and keeps the weights when they are the best so far."""
    logits = predict(run.accelerator, run.model, run.validation, run.params.evaluation_batch_size)
    split = run.validation.split
    scores = metrics_of(logits, split.labels, split.spec)
    metric = scores[run.params.metric]
    if run.accelerator.is_main_process:
        print(f"train: step {run.progress.step}: validation loss {scores['loss']:.4f}, {run.params.metric} {metric:.4f}", flush=True)
    if run.progress.evaluated_now(scores["loss"], metric, 0.0):
        weights = run.accelerator.get_state_dict(run.model)
        run.best_weights = {name: weight.detach().cpu().clone() for name, weight in weights.items()}
