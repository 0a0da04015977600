"""The training loop: epochs, batches, micro-batches, optimizer steps, evaluations and checkpoints."""

import contextlib
import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils.memory import should_reduce_batch_size
from numpy.typing import NDArray
from torch.nn import functional

from tuneline.core.params import Params
from tuneline.core.paths import TOKENIZED
from tuneline.core.runtime.errors import DataError, ParamsError
from tuneline.core.stage.arrays import RowNumbers
from tuneline.core.stage.tables import SplitReader
from tuneline.judge.metrics.predictions import Predictions
from tuneline.model.tasks.task import Logits
from tuneline.model.tokens.batches import length_sorted_batches
from tuneline.training.checkpoints import training_lock
from tuneline.training.cpu import fast_training
from tuneline.training.data import Inputs, shard_batch
from tuneline.training.devices import clip_gradients, gradient_synchronization
from tuneline.training.interruption import Interruption, TrainingInterrupted
from tuneline.training.losses import DividedContrast, contrastive_loss
from tuneline.training.progress import Evaluation, TrainingStep
from tuneline.training.state import (
    TrainingResult,
    TrainState,
    load_kept,
    print_startup_summary,
    resume,
    set_up,
    training_result,
)

MAX_GRADIENT_NORM = 1.0
"""Norm to which larger gradients are clipped."""
LOG_EVERY_STEPS = 10
"""Optimizer steps between rows of the training curve."""


def train_model(
    params: Params, inputs: Inputs, accelerator: Accelerator, interruption: Interruption
) -> TrainingResult:
    """Train to the end, from the newest checkpoint of the same run if there is one.

    After a signal, the state is saved.

    Raises:
        ParamsError: The device is out of memory.
    """
    with memory_errors_explained(params.train.micro_batch_size):
        state = set_up(params, inputs, accelerator, interruption)
        with training_lock(accelerator, state.checkpoints.folder), fast_training(accelerator, state.model):
            resume(state)
            if state.progress.step == 0:
                print_startup_summary(state)

            state.logger.start()
            with saving_when_interrupted(state):
                train_to_end(state)

                # the weights to publish, and their logits
                load_kept(state)
                logits = state.validation_logits
                if logits is None:
                    logits = predict_validation(state)
                return training_result(state, params, inputs, logits)


@contextlib.contextmanager
def memory_errors_explained(micro_batch_size: int) -> Iterator[None]:
    """Replace the error of a device that is out of memory by one that says what to lower.

    The batch with the longest row comes first, so the first step shows it.
    """
    try:
        yield
    except RuntimeError as error:
        if not should_reduce_batch_size(error):
            raise
        raise ParamsError(
            f"Out of memory with train.micro_batch_size {micro_batch_size}.",
            "Halve it (global_batch_size can stay), lower tokenize.max_length, or set"
            " train.gradient_checkpointing. With tokenize.long_text: windows, the windows of a"
            " document go through the model together: lower tokenize.windows.max_windows.",
        ) from None


@contextlib.contextmanager
def saving_when_interrupted(state: TrainState) -> Iterator[None]:
    """Save a checkpoint if a signal stops the block, also if the signal arrives at its very end.

    What follows the block publishes the model, and cannot be stopped.
    """
    try:
        yield
        state.coordinator.check_interruption()  # a process whose parent has ended must not publish
    except TrainingInterrupted as interrupted:
        state.checkpoints.save(state.progress)
        raise TrainingInterrupted(
            f"interrupted by {interrupted} after step {state.progress.step} of {state.total_steps}; the"
            f" checkpoint is {state.checkpoints.current}. Run `dvc repro` to resume from it."
        ) from None


def train_to_end(state: TrainState) -> None:
    """Train from ``state.progress`` to the end of the run."""
    progress = state.progress

    _evaluate_and_save(state)  # a resumed checkpoint may have been saved just before an evaluation

    while not state.is_finished():
        epoch, position = divmod(progress.step, state.sampler.batches_per_epoch)
        for batch in state.sampler.epoch(epoch)[position:]:
            step = train_batch(state, batch)
            progress.step += 1

            # training curve
            log_now = progress.step % LOG_EVERY_STEPS == 0 or progress.step == state.total_steps
            progress.record_step(step, log_now)
            state.logger.log_step(step, state.total_steps, batch)

            _evaluate_and_save(state)
            if state.is_finished():  # early stopping or max_steps may end the run within an epoch
                return


def train_batch(state: TrainState, batch: RowNumbers) -> TrainingStep:
    """Take one optimizer step on the mean loss over a batch.

    The step is the same, up to rounding, however the batch is split into micro-batches and processes.
    Gradients are averaged over the processes when they are synchronized, so each process multiplies its loss
    by their number. They are synchronized once, after the last micro-batch. After a signal, weights and
    optimizer are unchanged. A loss or gradient that is NaN or infinite ends the run.
    """
    accelerator = state.accelerator
    loader = state.train_loader

    # batch: each process takes its micro-batches; the weight is of the whole batch, in every process
    micro_batches = shard_batch(
        batch,
        state.params.micro_batch_size,
        accelerator.num_processes,
        accelerator.process_index,
        loader.windows(batch),
    )
    total_weight = state.loss.total_weight(loader.split.labels[batch])
    total_loss = torch.zeros((), device=accelerator.device)

    # pairs: their rows may be in two micro-batches
    contrast = None
    if state.loss.contrastive and len(micro_batches) * accelerator.num_processes > 1:
        contrast = divided_contrast(state, micro_batches, len(batch))

    for index, rows in enumerate(micro_batches):
        is_last = index == len(micro_batches) - 1
        state.coordinator.check_interruption()
        _seed_dropout(state, index)
        with gradient_synchronization(accelerator, state.model, last=is_last):
            loss = _micro_batch_loss(state, rows, total_weight, contrast)

            # backward: the average over the processes becomes the sum again
            accelerator.backward(loss * accelerator.num_processes)
        total_loss += loss.detach()

    # step
    batch_loss = float(accelerator.reduce(total_loss, "sum"))
    return _optimizer_step(state, batch, batch_loss)


def _micro_batch_loss(
    state: TrainState, rows: RowNumbers, total_weight: float, contrast: DividedContrast | None
) -> torch.Tensor:
    """Return the share of a micro-batch in the loss of its batch, whose examples have a total weight.

    ``contrast`` has the loss of pairs if the batch has other micro-batches.
    """
    # An empty micro-batch gives the outputs of a stand-in row, which are cut off. A row in several windows
    # has one answer, and gradients to all of them.
    loader = state.train_loader
    outputs = state.model(**loader.inputs(rows))
    labels = loader.labels(rows)
    logits = loader.answers(outputs.logits, rows)
    loss = state.loss.per_example(logits, labels).sum() / total_weight
    share = state.loss.contrastive
    if not share:
        return loss

    # pairs
    vectors = loader.answers(outputs.hidden_states[0], rows)
    if contrast is None:
        loss_of_pairs = contrastive_loss(vectors, labels)
    else:
        loss_of_pairs = contrast.share(vectors, rows)
    return (1 - share) * loss + share * loss_of_pairs


def divided_contrast(state: TrainState, micro_batches: Sequence[RowNumbers], rows: int) -> DividedContrast:
    """Return the contrastive loss of a batch of so many rows, of which this process has some micro-batches.

    Their vectors are computed as the step computes them, with the same dropout.
    """
    loader = state.train_loader
    vectors = []
    with torch.no_grad():
        for index, micro_batch in enumerate(micro_batches):
            state.coordinator.check_interruption()
            _seed_dropout(state, index)
            features = state.model(**loader.inputs(micro_batch)).hidden_states[0]
            vectors.append(loader.answers(features.float(), micro_batch))

    # of all processes
    numbers, values = _gather(state.accelerator, np.concatenate(micro_batches), torch.cat(vectors), rows)
    return DividedContrast.of(numbers, torch.from_numpy(values).to(loader.device), loader.labels(numbers))


def _seed_dropout(state: TrainState, micro_batch: int) -> None:
    """Make dropout a function of (seed, step, micro-batch, process): a resumed run draws the same masks."""
    entropy = (state.sampler.seed, state.progress.step, micro_batch, state.accelerator.process_index)
    torch.manual_seed(int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0]))


def _optimizer_step(state: TrainState, batch: RowNumbers, loss: float) -> TrainingStep:
    """Clip the gradients, step optimizer and schedule, and reset the gradients."""
    step = state.progress.step + 1
    norm = clip_gradients(state.accelerator, state.model, state.optimizer, MAX_GRADIENT_NORM)

    # the scaler of fp16 skips a step whose gradients overflowed, and lowers its factor
    norm_is_valid = math.isfinite(norm) or state.accelerator.scaler is not None
    if not math.isfinite(loss) or not norm_is_valid:
        rows = SplitReader.open(TOKENIZED, "train", made_by="tokenize")
        places = "; ".join(rows.place(row) for row in sorted(batch.tolist()))
        raise DataError(
            f"Step {step}: loss {loss:g}, gradient norm {norm:g}. Its batch: {places}.",
            "Lower train.learning_rate, lengthen the warmup, or train with mixed_precision 'no' or bf16.",
        )
    if not math.isfinite(norm):
        norm = 0.0

    # before the schedule moves on: the rate of this step
    learning_rate = float(state.optimizer.param_groups[0]["lr"])
    state.optimizer.step()
    state.schedule.step()
    state.optimizer.zero_grad()
    return TrainingStep(step, loss, learning_rate, norm)


def _evaluate_and_save(state: TrainState) -> None:
    """Evaluate if it is due and not done yet, and save a checkpoint if it is due or has the best weights."""
    step = state.progress.step
    if step == 0:
        return
    improved = _evaluation_due(state) and evaluate_validation(state)
    every_steps = state.run.checkpoint_every_steps
    is_due = every_steps is not None and step % every_steps == 0
    if is_due or (improved and state.params.keep == "best"):
        state.checkpoints.save(state.progress)


def _evaluation_due(state: TrainState) -> bool:
    """Return True after the configured number of steps, by default an epoch, and after the last step."""
    step = state.progress.step
    evaluated = state.progress.evaluated
    if evaluated and evaluated[-1].step == step:  # a resumed checkpoint has the evaluation of its step
        return False
    interval = state.params.evaluate_every_steps or state.sampler.batches_per_epoch
    return step % interval == 0 or step == state.total_steps


def evaluate_validation(state: TrainState) -> bool:
    """Compute loss and metric of the validation split; return True if the weights are the best so far."""
    progress = state.progress
    split = state.validation_loader.split
    logits = predict_validation(state)
    predictions = Predictions.of_logits(split.labels, logits, split.task)
    metrics = state.metric.scores(state.metric.measured(predictions))
    evaluation = Evaluation(progress.step, metrics["loss"], metrics[state.metric.name])
    if not math.isfinite(evaluation.loss):
        raise DataError(
            f"Step {progress.step}: the loss on the validation split is {evaluation.loss}.",
            "Lower train.learning_rate, or train with mixed_precision 'no' or bf16.",
        )

    # best weights and early stopping
    stopping = state.params.early_stopping
    min_gain = stopping.min_gain if stopping else 0.0
    improved = progress.record_evaluation(evaluation, state.metric.greater_is_better, min_gain)
    if stopping is not None:
        progress.stopped_early = progress.evaluations_without_improvement >= stopping.patience

    state.logger.log_evaluation(evaluation, improved)
    if improved or state.params.keep == "last":
        state.validation_logits = logits
    return improved


def predict_validation(state: TrainState) -> Logits:
    """Return the logits of the validation split, shape ``(rows, outputs)``, the same in every process.

    Each process predicts a shard, in batches of rows of similar length.
    """
    # the batches of this process
    shards = _shards(state)
    batches = shards[state.accelerator.process_index]
    logits = _logits(state, batches)

    # the rows of all processes
    largest = max(sum(map(len, shard)) for shard in shards)
    rows, values = _gather(state.accelerator, np.concatenate(batches), logits, largest)
    return restore_file_order(rows, values, len(state.validation_loader.split))


def _shards(state: TrainState) -> list[list[RowNumbers]]:
    split = state.validation_loader.split
    processes = state.accelerator.num_processes
    return shard_split(split.lengths, state.evaluation_batch_size, processes, split.window_counts)


def _logits(state: TrainState, batches: Sequence[RowNumbers]) -> torch.Tensor:
    loader = state.validation_loader
    logits = []
    state.model.eval()
    with torch.no_grad():  # not inference_mode: FSDP's parameters are views that autograd tracks later
        for rows in batches:
            state.coordinator.check_interruption()
            outputs: torch.Tensor = state.model(**loader.inputs(rows)).logits
            logits.append(loader.answers(outputs.float(), rows))
    state.model.train()
    return torch.cat(logits)


def shard_split(
    lengths: NDArray[np.int64],
    batch_size: int,
    processes: int,
    windows: NDArray[np.int64] | None = None,
) -> list[list[RowNumbers]]:
    """Return the batches of each process; all processes get the same number.

    ``windows`` has the number of windows of each row, if rows are divided into windows.
    """
    shards: list[list[RowNumbers]] = [[] for _ in range(processes)]
    for rows in length_sorted_batches(lengths, batch_size * processes, windows):
        row_windows = None if windows is None else windows[rows]
        for process in range(processes):
            shards[process] += shard_batch(rows, batch_size, processes, process, row_windows)
    return shards


def restore_file_order(rows: RowNumbers, values: Logits, count: int) -> Logits:
    """Sort predictions by row; fail unless ``rows`` has each of ``0 .. count - 1`` exactly once."""
    if not np.array_equal(np.sort(rows), np.arange(count)):
        raise AssertionError(f"evaluation predicted {len(rows)} rows; the split has {count}")
    result = np.empty_like(values)
    result[rows] = values
    return result


def _gather(
    accelerator: Accelerator, rows: RowNumbers, logits: torch.Tensor, largest: int
) -> tuple[RowNumbers, Logits]:
    """Return the rows and logits of all processes.

    ``gather`` needs equal shapes, so each process pads its results to ``largest`` rows with row index -1,
    dropped afterwards.
    """
    if accelerator.num_processes == 1:
        return rows, logits.cpu().numpy()
    missing = largest - len(rows)
    padded_rows = functional.pad(torch.from_numpy(rows), (0, missing), value=-1)
    padded_logits = functional.pad(logits, (0, 0, 0, missing))

    all_rows = accelerator.gather(padded_rows.to(accelerator.device)).cpu().numpy()
    all_logits = accelerator.gather(padded_logits).cpu().numpy()
    is_row = all_rows >= 0
    return all_rows[is_row], all_logits[is_row]
