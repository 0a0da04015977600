"""Evaluations of a run on the validation split: before the first step, between steps, and within the memory of the device."""

import math

import numpy as np
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size

from stages.train.evaluation import Logits, predict
from stages.train.optimization import STEPPED_BY_VALIDATION_LOSS
from stages.train.progress import Evaluation
from stages.train.state import TrainState
from tuneline.batches import TokenizedSplit
from tuneline.errors import DataError, ParamsError
from tuneline.files.shards import SplitReader
from tuneline.paths import TOKENIZED


def evaluate_before_training(state: TrainState) -> None:
    """Evaluate the model before the first step: the first point of the validation curve, which is no candidate for the best weights.

    It also shows at once if an evaluation fits into memory, because the longest rows come first.

    Raises:
        TrainingInterrupted: A signal arrived.
        DataError: The loss is NaN or infinite.
    """
    if state.progress.step > 0 or state.progress.baseline is not None:
        return
    state.progress.baseline = _measure(state)
    state.logger.log_evaluation(state.progress.baseline, best=False)


def evaluate(state: TrainState) -> bool:
    """Compute loss and metric of the validation split; return True if the weights are the best so far.

    Raises:
        TrainingInterrupted: A signal arrived.
        DataError: The loss is NaN or infinite.
    """
    params, progress = state.params, state.progress
    row = _measure(state)
    stopping = params.early_stopping
    min_gain = stopping.min_gain if stopping else 0.0
    improved = progress.record_evaluation(row, state.metric.greater_is_better, min_gain)
    progress.stopped_early = stopping is not None and progress.evaluations_without_improvement >= stopping.patience
    if params.schedule in STEPPED_BY_VALIDATION_LOSS:
        state.schedule.step(row.loss)
    state.logger.log_evaluation(row, improved)
    return improved


def _measure(state: TrainState) -> Evaluation:
    """Return loss and metric of the current weights on the validation split."""
    split, step = state.validation_loader.split, state.progress.step
    metrics = state.metric.scores(predict_within_memory(state), split.labels, split.label_schema)
    if not math.isfinite(metrics["loss"]):
        raise DataError(f"Step {step}: the loss on the validation split is {metrics['loss']}.", _non_finite_hint(split))
    return Evaluation(step, metrics["loss"], metrics[state.metric.name])


def _non_finite_hint(split: TokenizedSplit) -> str:
    unusable = np.flatnonzero(~np.isfinite(split.labels))[:10]
    if not len(unusable):
        return "Lower train.learning_rate, or train with mixed_precision 'no' or bf16."
    places = SplitReader.open(TOKENIZED, "validation", made_by="tokenize").places(unusable)
    return f"Correct the labels that are NaN or infinite, such as those of the rows in {places}."


def predict_within_memory(state: TrainState) -> Logits:
    """Return the logits of the validation split, in smaller batches from now on if the device is out of memory.

    Raises:
        TrainingInterrupted: A signal arrived.
        ParamsError: Not even one example fits, or one of several processes is out of memory (see ``stages.train.loop``).
    """
    while True:
        size = state.evaluation_batch_size
        try:
            return predict(state.accelerator, state.model, state.validation_loader, size, state.coordinator)
        except RuntimeError as error:
            if not should_reduce_batch_size(error):
                raise
            if size == 1 or state.accelerator.num_processes > 1:
                hint = "Lower it." if size > 1 else "Lower tokenize.max_length."
                raise ParamsError(f"Out of memory in an evaluation with train.evaluation_batch_size {size}.", hint) from None
        state.evaluation_batch_size = size // 2
        clear_device_cache(garbage_collection=True)
        state.logger.info(f"out of memory in an evaluation; train.evaluation_batch_size is {size // 2} from now on")
