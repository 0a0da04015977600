"""The training loop: groups of examples in, optimizer steps out."""

import contextlib
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import nn
from torch.optim import Optimizer

from stages.train.checkpoints import Checkpoints
from stages.train.control import Control
from stages.train.evaluation import predict
from stages.train.feeding import Feed
from stages.train.interruption import InterruptedRun
from stages.train.losses import Loss
from stages.train.order import Order, Rows, share
from stages.train.progress import Progress, StepResult
from stages.train.schedule import BY_LOSS
from stages.train.watching import Watch
from tuneline.errors import DataError
from tuneline.metrics import metrics_of
from tuneline.params import TrainParams


@dataclass
class Run:
    """Everything a run works with.

    Attributes:
        micro_batch_size: As it fits into memory; ``params`` says how it began.
        model: As prepared by the accelerator, like ``optimizer`` and ``schedule``.
        total_steps: Of the whole run.
        first_token_only: Whether the last layer computes only what the classifier reads.
    """

    accelerator: Accelerator
    params: TrainParams
    micro_batch_size: int
    model: nn.Module
    optimizer: Optimizer
    schedule: Any
    order: Order
    loss: Loss
    train: Feed
    validation: Feed
    total_steps: int
    first_token_only: bool
    checkpoints: Checkpoints
    control: Control
    watch: Watch
    progress: Progress = field(default_factory=Progress)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to train."""
        return self.progress.step >= self.total_steps or self.progress.stopped_early


def fit(run: Run) -> None:
    """Trains from where ``run.progress`` stands to the end.

    Raises:
        InterruptedRun: A signal came; the state is saved.
        DataError: The loss is no number any more.
    """
    try:
        _fit(run)
    except InterruptedRun as interrupted:
        run.checkpoints.save(run.progress)
        raise InterruptedRun(interrupted.signal, run.progress.step, run.total_steps, run.checkpoints.saved) from None


def _fit(run: Run) -> None:
    epoch, groups = -1, list[Rows]()
    while True:
        improved = evaluate(run) if _evaluation_due(run) else False
        if (improved and run.params.keep == "best") or _checkpoint_due(run):
            run.checkpoints.save(run.progress)
            run.control.note_saved()
        if run.finished:
            return
        now, place = divmod(run.progress.step, run.order.groups_per_epoch)
        if now != epoch:
            epoch, groups = now, run.order.epoch(now)
        result = train_group(run, groups[place])
        run.progress.step += 1
        log_now = run.progress.step % run.params.log_every_steps == 0 or run.progress.step == run.total_steps
        run.watch.step(result, groups[place], run.progress.note_step(result, log_now))


def train_group(run: Run, rows: Rows) -> StepResult:
    """One optimizer step: the loss is the mean over the group's examples, however they are shared out.

    Gradients are averaged over the processes when they are synchronized, so each process scales its part up by their
    number. They are synchronized once, with the last micro batch.

    Raises:
        InterruptedRun: A signal came before the step was taken; weights and optimizer are as they were.
        DataError: The loss or the gradient is no number.
    """
    accelerator = run.accelerator
    shares = share(rows, run.micro_batch_size, accelerator.num_processes, accelerator.process_index)
    whole = run.loss.total_weight(run.train.split.labels[rows])
    total = torch.zeros((), device=accelerator.device)
    for index, own in enumerate(shares):
        run.control.check_interruption()
        _seed(run, index)
        with _synchronizing(run, index == len(shares) - 1):
            logits = run.model(**run.train.inputs(own)).logits[: len(own)]
            loss = run.loss.per_example(logits, run.train.labels(own)).sum() / whole
            accelerator.backward(loss * accelerator.num_processes)
        total += loss.detach()
    return _step(run, rows, float(accelerator.reduce(total, "sum")))


def _step(run: Run, rows: Rows, loss: float) -> StepResult:
    """Clips, steps, and empties the gradients."""
    accelerator = run.accelerator
    norm = accelerator.clip_grad_norm_(run.model.parameters(), run.params.max_grad_norm or math.inf)
    norm = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm or 0.0)  # sharded, or none from DeepSpeed
    if not math.isfinite(loss) or not (math.isfinite(norm) or accelerator.scaler is not None):
        raise _no_number(run, rows, loss, norm)
    result = StepResult(loss, float(run.optimizer.param_groups[0]["lr"]), norm if math.isfinite(norm) else 0.0)
    run.optimizer.step()
    if run.params.schedule not in BY_LOSS:
        run.schedule.step()
    run.optimizer.zero_grad()
    return result


def _synchronizing(run: Run, last: bool) -> contextlib.AbstractContextManager[None]:
    """Gradients stay in their process until the last micro batch of a group."""
    if run.accelerator.distributed_type == DistributedType.DEEPSPEED:  # its engine steps when told that they are in step
        run.accelerator.gradient_state._set_sync_gradients(last)
        return contextlib.nullcontext()
    context: contextlib.AbstractContextManager[None] = contextlib.nullcontext() if last else run.accelerator.no_sync(run.model)
    return context


def _seed(run: Run, micro_batch: int) -> None:
    """Dropout is a function of (seed, step, micro batch, process), so that nothing interrupted can shift it."""
    place = (run.order.seed, run.progress.step, micro_batch, run.accelerator.process_index)
    torch.manual_seed(int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0]))


def _no_number(run: Run, rows: Rows, loss: float, norm: float) -> DataError:
    return DataError(
        f"Step {run.progress.step + 1} gave loss {loss:g} and gradient norm {norm:g}. Rows of its batch in "
        f"data/tokenized/train.parquet: {', '.join(map(str, np.sort(rows).tolist()))}.",
        "Lower train.learning_rate, lengthen the warmup, set train.max_grad_norm, or train with mixed_precision 'no' or bf16; "
        "if those rows hold labels that are no numbers, mend the data.",
    )


def _evaluation_due(run: Run) -> bool:
    step, every = run.progress.step, run.params.evaluate_every_steps or run.order.groups_per_epoch
    return step > 0 and not run.progress.evaluated_here and (step % every == 0 or step == run.total_steps)


def _checkpoint_due(run: Run) -> bool:
    """After so many steps, epochs or minutes. The last is asked in every process at every step."""
    params, step, timely = run.params, run.progress.step, run.control.time_to_save()
    if step == 0:
        return False
    spans = [params.checkpoint_every_steps, (params.checkpoint_every_epochs or 0) * run.order.groups_per_epoch]
    return timely or any(span and step % span == 0 for span in spans)


def evaluate(run: Run) -> bool:
    """Scores the validation split. Returns whether the weights are the best so far."""
    params, progress = run.params, run.progress
    logits = predict(run.accelerator, run.model, run.validation, params.evaluation_batch_size, run.control)
    split = run.validation.split
    scores = metrics_of(logits, split.labels, split.label_schema)
    if not math.isfinite(scores["loss"]):
        raise DataError(f"After step {progress.step} the loss on the validation split is {scores['loss']}.", "Lower train.learning_rate.")
    stopping = params.early_stopping
    improved = progress.note_evaluation(scores["loss"], scores[params.metric], params.metric, stopping.min_gain if stopping else 0.0)
    progress.stopped_early = stopping is not None and progress.stale >= stopping.patience
    if params.schedule in BY_LOSS:
        run.schedule.step(scores["loss"])
    run.watch.evaluation(progress.evaluated[-1], improved)
    return improved
