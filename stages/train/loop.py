"""The training loop: epochs, batches, micro-batches, optimizer steps, evaluations and checkpoints."""

import contextlib
import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import find_executable_batch_size
from accelerate.utils.memory import should_reduce_batch_size

from stages.train.checkpoints import training_lock
from stages.train.contention import short_waits_on_shared_cores
from stages.train.data import Inputs, Rows, shard_batch
from stages.train.devices import gradient_synchronization
from stages.train.interruption import Interruption, TrainingInterrupted
from stages.train.machines import check_unchanged
from stages.train.optimization import STEPPED_BY_VALIDATION_LOSS
from stages.train.progress import StepResult
from stages.train.startup import print_startup_summary
from stages.train.state import TrainingResult, TrainState, function_files, resume, set_up, training_result
from stages.train.validation import evaluate, evaluate_before_training
from tuneline.errors import DataError, ParamsError
from tuneline.files.shards import SplitReader
from tuneline.params import Params
from tuneline.paths import TOKENIZED
from tuneline.terminal import say


def train(params: Params, inputs: Inputs, accelerator: Accelerator, interruption: Interruption) -> TrainingResult:
    """Train to the end, from the newest checkpoint of the same run if there is one.

    Out of memory, the run restarts with half the micro-batch size; the global batch size stays.

    Raises:
        TrainingInterrupted: A signal arrived; the state is saved.
        StageError: Parameters, data or devices do not allow the run.
    """

    def train_with(micro_batch_size: int) -> TrainingResult:
        state = set_up(params, inputs, accelerator, interruption, micro_batch_size)
        with training_lock(accelerator):
            resume(state)
            if state.progress.step == 0:
                print_startup_summary(state)
            with state.logger.open(state.progress, state.total_steps), short_waits_on_shared_cores(), saving_when_interrupted(state):
                fit(state)
                result = training_result(state, params, inputs)
                check_unchanged(accelerator, state.identity, params, function_files(state.loss, state.metric))
                return result

    return retry_on_out_of_memory(train_with, params.train.micro_batch_size, accelerator)


def retry_on_out_of_memory(train_with: Callable[[int], TrainingResult], micro_batch_size: int, accelerator: Accelerator) -> TrainingResult:
    """Call ``train_with`` with a micro-batch size that is halved each time the device is out of memory.

    The batch with the longest row comes first, so the first step shows it. Several processes do not retry: one may be out
    of memory alone, while the others wait for its gradients.

    Raises:
        ParamsError: Not even one example fits, or one of several processes is out of memory.
    """
    size = micro_batch_size

    def halve() -> int:
        nonlocal size
        size //= 2
        accelerator.free_memory()
        say(f"train: out of memory; retrying with micro_batch_size {size}, global_batch_size is unchanged")
        return size

    def train_once(batch_size: int) -> TrainingResult:  # accelerate passes the size to the first parameter
        return train_with(batch_size)

    try:
        if accelerator.num_processes > 1:
            return train_with(size)
        result: TrainingResult = find_executable_batch_size(train_once, starting_batch_size=size, reduce_batch_size_fn=halve)()
    except RuntimeError as error:
        if size == 0 or should_reduce_batch_size(error):
            raise ParamsError(
                f"Out of memory with train.micro_batch_size {max(size, 1)}.",
                "Halve it (global_batch_size can stay), lower tokenize.max_length, or set train.gradient_checkpointing.",
            ) from None
        raise
    return result


@contextlib.contextmanager
def saving_when_interrupted(state: TrainState) -> Iterator[None]:
    """Save a checkpoint if a signal stops the block, or arrives before its end: what follows publishes the model.

    Raises:
        TrainingInterrupted: A signal arrived; the state is saved.
    """
    try:
        yield
        state.coordinator.check_interruption()  # a process whose parent has ended must not publish
    except TrainingInterrupted as interrupted:
        state.checkpoints.save(state.progress)
        raise TrainingInterrupted(interrupted.signal, state.progress.step, state.total_steps, state.checkpoints.current) from None


def fit(state: TrainState) -> None:
    """Train from ``state.progress`` to the end of the run.

    Raises:
        TrainingInterrupted: A signal arrived.
        DataError: A loss or gradient is NaN or infinite.
    """
    evaluate_before_training(state)
    _evaluate_and_save(state)  # a checkpoint may have been saved just before an evaluation
    while not state.is_finished():
        epoch, position = divmod(state.progress.step, state.sampler.batches_per_epoch)
        for batch in state.sampler.epoch(epoch)[position:]:
            result = train_batch(state, batch)
            state.progress.step += 1
            _log_step(state, batch, result)
            _evaluate_and_save(state)
            if state.is_finished():
                return


def train_batch(state: TrainState, batch: Rows) -> StepResult:
    """Take one optimizer step on the mean loss over a batch, however it is split into micro-batches and processes.

    Gradients are averaged over the processes when they are synchronized, so each process multiplies its loss by their
    number. They are synchronized once, after the last micro-batch.

    Raises:
        TrainingInterrupted: A signal arrived before the step; weights and optimizer are unchanged.
        DataError: The loss or the gradient is NaN or infinite.
    """
    accelerator = state.accelerator
    micro_batches = shard_batch(batch, state.micro_batch_size, accelerator.num_processes, accelerator.process_index)
    total_weight = state.loss.total_weight(state.train_loader.split.labels[batch])
    total_loss = torch.zeros((), device=accelerator.device)
    for index, rows in enumerate(micro_batches):
        state.coordinator.check_interruption()
        _seed_dropout(state, index)
        with gradient_synchronization(accelerator, state.model, last=index == len(micro_batches) - 1):
            logits = state.model(**state.train_loader.inputs(rows)).logits[: len(rows)]
            loss = state.loss.per_example(logits, state.train_loader.labels(rows)).sum() / total_weight
            accelerator.backward(loss * accelerator.num_processes)
        total_loss += loss.detach()
    return _optimizer_step(state, batch, float(accelerator.reduce(total_loss, "sum")))


def _seed_dropout(state: TrainState, micro_batch: int) -> None:
    """Make dropout a function of (seed, step, micro-batch, process), so that a resumed run draws the same masks."""
    entropy = (state.sampler.seed, state.progress.step, micro_batch, state.accelerator.process_index)
    torch.manual_seed(int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0]))


def _optimizer_step(state: TrainState, batch: Rows, loss: float) -> StepResult:
    """Clip the gradients, step optimizer and schedule, and reset the gradients."""
    accelerator = state.accelerator
    norm = accelerator.clip_grad_norm_(state.model.parameters(), state.params.max_grad_norm or math.inf)
    norm = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm or 0.0)  # FSDP: a DTensor; DeepSpeed: None
    if not math.isfinite(loss) or not (math.isfinite(norm) or accelerator.scaler is not None):  # the scaler skips such steps
        raise _non_finite_error(state, batch, loss, norm)
    result = StepResult(loss, float(state.optimizer.param_groups[0]["lr"]), norm if math.isfinite(norm) else 0.0)
    state.optimizer.step()
    if state.params.schedule not in STEPPED_BY_VALIDATION_LOSS:
        state.schedule.step()
    state.optimizer.zero_grad()
    return result


def _non_finite_error(state: TrainState, batch: Rows, loss: float, norm: float) -> DataError:
    places = SplitReader.open(TOKENIZED, "train", made_by="tokenize").places(batch)
    return DataError(
        f"Step {state.progress.step + 1}: loss {loss:g}, gradient norm {norm:g}. Rows of its batch in {places}.",
        "Lower train.learning_rate, lengthen the warmup, set train.max_grad_norm, or train with mixed_precision 'no' or bf16. "
        "If labels of these rows are NaN or infinite, correct the data.",
    )


def _log_step(state: TrainState, batch: Rows, result: StepResult) -> None:
    step = state.progress.step
    log_now = step % state.params.log_every_steps == 0 or step == state.total_steps
    state.logger.log_step(result, batch, state.progress.record_step(result, log_now))


def _evaluate_and_save(state: TrainState) -> None:
    improved = evaluate(state) if _evaluation_due(state) else False
    if (improved and state.params.keep == "best") or _checkpoint_due(state):
        state.checkpoints.save(state.progress)
        state.coordinator.restart_checkpoint_timer()


def _evaluation_due(state: TrainState) -> bool:
    step, interval = state.progress.step, state.params.evaluate_every_steps or state.sampler.batches_per_epoch
    return step > 0 and not state.progress.is_evaluated and (step % interval == 0 or step == state.total_steps)


def _checkpoint_due(state: TrainState) -> bool:
    """Return True after the configured number of steps, epochs or minutes."""
    time_elapsed = state.coordinator.checkpoint_time_elapsed()  # first: every process must ask equally often
    run, step = state.run, state.progress.step
    if step == 0:
        return False
    intervals = [run.checkpoint_every_steps, (run.checkpoint_every_epochs or 0) * state.sampler.batches_per_epoch]
    return time_elapsed or any(interval and step % interval == 0 for interval in intervals)
