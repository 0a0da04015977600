"""Train the classifier on the tokenized splits.

Start: ``python -m tuneline.training.launch stages.train``, which starts it on the devices of
``train.launch``.

Reads: ``data/tokenized/{train,validation}.parquet``, ``data/tokenized/tokenizer/``, ``models/base/``;
``reports/checks/clusters/validation.parquet``, which rows are independent; the
parameters ``seed``, ``data.text_columns``, ``model.config``, ``model.head``, ``train``; the functions in
``project/`` that ``train.loss`` and ``train.metric`` name. Computes: a training loop on accelerate
(tuneline/training/loop.py), which begins with a linear model on the checkpoint's vectors
(tuneline/training/frozen_head.py); keeps the best weights by the validation metric, or the last. With
``model.head: frozen``, the linear model alone; with ``auto``, publishes the one, the other or an average of
both (tuneline/training/choice.py). Writes: ``models/classifier/``, ``plots/training/{loss,validation}.tsv``,
``metrics/train.json``; ``reports/validation.parquet``, the predictions of the published weights for the
validation split, which experiments are compared by. During the run: ``checkpoints/``.
"""

import signal
import sys
from dataclasses import replace
from typing import NoReturn

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import broadcast_object_list

from tuneline.core.params import Params
from tuneline.core.params.loading import load_params, warn_of_learning_rate
from tuneline.core.paths import CLASSIFIER, METRICS, PLOTS, TOKENIZER, VALIDATION_PREDICTIONS
from tuneline.core.runtime.terminal import say
from tuneline.core.stage.entry import Measurements, run_stage
from tuneline.core.stage.provenance import DevicesUsed, write_provenance
from tuneline.core.stage.records import Metrics, write_record
from tuneline.judge.metrics.predictions import Predictions, clusters_of_split, write_predictions
from tuneline.judge.metrics.temperature import calibrated
from tuneline.model.linear.pooled_classifier import LinearHead
from tuneline.model.tokens.architectures import read_base
from tuneline.model.tokens.tokenized_splits import TokenizedSplit
from tuneline.training.choice import begins_with_linear_model
from tuneline.training.data import Inputs, read_inputs
from tuneline.training.devices import TRAINING_LIBRARIES, create_accelerator
from tuneline.training.frozen_head import FrozenResult, fit_frozen, fits_linear_model
from tuneline.training.interruption import TrainingInterrupted, exit_without_cleanup, recorded_signals
from tuneline.training.launch import INTERRUPTED, STOPPING, end_with_launcher
from tuneline.training.loop import train_model
from tuneline.training.optimization import ValidationMetric
from tuneline.training.publication import (
    choose_published,
    publish_curves,
    publish_model,
    training_metrics,
)
from tuneline.training.state import FittedModel, TrainingResult, TrainState


def main() -> Measurements:
    """Train and publish the result; resume if an earlier start of the same run was interrupted.

    After a signal, the state is saved and the exit code is 75.
    """
    params = load_params()
    read_base(params)  # refuses a base model of another checkpoint before the processes wait for each other
    accelerator = create_accelerator(params)
    inputs = read_inputs(params.train)
    params.check_class_names(inputs.labels.class_names)
    if accelerator.is_main_process:
        warn_of_learning_rate("train", params)

    if params.model.head == "frozen":
        usage = fit_head(params, inputs, accelerator)
    else:
        usage = fine_tune(params, inputs, accelerator)
    accelerator.end_training()
    return usage


def fine_tune(params: Params, inputs: Inputs, accelerator: Accelerator) -> Measurements:
    """Run the training loop, and publish its result.

    The linear model on the frozen checkpoint, with which it begins or which it has to beat, is fitted again
    when a training resumes: it takes seconds, and gives the same numbers.
    """
    # the linear model
    frozen = None
    heads: list[LinearHead | None] = [None]
    if accelerator.is_main_process and fits_linear_model(params, inputs):
        frozen = fit_frozen(params, inputs, accelerator)
        if begins_with_linear_model(frozen.logits, inputs, pairs=len(params.data.text_columns) == 2):
            heads = [frozen.head]
    broadcast_object_list(heads)
    inputs = replace(inputs, linear_head=heads[0])

    with recorded_signals() as interruption:
        try:
            result = train_model(params, inputs, accelerator, interruption)
        except TrainingInterrupted as interrupted:
            exit_interrupted(accelerator, interrupted)

        # from here on, a signal changes nothing: the run ends
        usage = resource_usage(result.state)
        publish_outs(result, frozen, inputs, params)

        # within the block, so that a signal ends no process that waits while the main process publishes
        accelerator.wait_for_everyone()
    return usage


def fit_head(params: Params, inputs: Inputs, accelerator: Accelerator) -> Measurements:
    """Fit and publish a linear model on the frozen checkpoint, in the main process.

    A signal ends it, and there is nothing to resume.
    """
    usage: dict[str, float] = {}
    if accelerator.is_main_process:
        fitted = fit_frozen(params, inputs, accelerator)
        publish_curves(fitted.progress, fitted.metric.name, PLOTS / "training")
        publish(fitted.classifier(params, inputs), fitted.metric, inputs.validation, params)
        usage["training_seconds"] = round(fitted.seconds, 2)
    accelerator.wait_for_everyone()
    return usage


def publish_outs(result: TrainingResult, frozen: FrozenResult | None, inputs: Inputs, params: Params) -> None:
    """Write the outs, then remove the checkpoints: a run killed while publishing resumes from them.

    The curves are of the training, whichever model is published; the metrics are of the published model.
    """
    state = result.state
    if state.accelerator.is_main_process:
        publish_curves(state.progress, state.metric.name, PLOTS / "training")
        published: FittedModel = result
        if frozen is not None and params.model.head == "auto":
            published = choose_published(result, frozen, inputs, params)
        publish(published, state.metric, inputs.validation, params)
    state.checkpoints.remove_all()


def publish(published: FittedModel, metric: ValidationMetric, split: TokenizedSplit, params: Params) -> None:
    """Write the model, its metrics, and its predictions for the validation split.

    The task of the model has what validation chooses: thresholds, and temperatures, which change no answer.
    In the measurements, each row is decided by thresholds that the other rows choose.
    """
    clusters = clusters_of_split("validation", len(split))
    predictions = Predictions.of_logits(split.labels, published.logits, split.task, clusters)
    task = calibrated(replace(predictions, task=metric.decided(predictions)))
    publish_model(published.model, published.weights, TOKENIZER, CLASSIFIER, task)

    # measurements
    predictions = metric.measured(predictions)
    write_predictions(VALIDATION_PREDICTIONS, predictions)
    interval = metric.interval(predictions, params.seed)
    metrics = training_metrics(published.progress, metric.name, interval, params.train.keep)
    write_record(METRICS / "train.json", Metrics.of({**metrics, **published.choice}))


def exit_interrupted(accelerator: Accelerator, interrupted: TrainingInterrupted) -> NoReturn:
    """Print how to resume, and exit."""
    if accelerator.is_main_process:
        say(f"\ntrain: {interrupted}", error=True)

    accelerator.wait_for_everyone()
    accelerator.end_training()
    if accelerator.num_processes > 1:
        exit_without_cleanup(INTERRUPTED)
    sys.exit(INTERRUPTED)


def record_devices() -> None:
    """Write the provenance with the devices that ``main`` has trained on."""
    state = AcceleratorState()
    devices = DevicesUsed(
        type=state.device.type,
        precision=state.mixed_precision,
        processes=state.num_processes,
        distribution=state.distributed_type.value,
    )
    write_provenance("train", TRAINING_LIBRARIES, devices=devices)


def run() -> NoReturn:
    """Run the stage in this process, one of those that a launcher has started."""
    try:
        run_stage("train", main, record_devices)
    finally:
        # the exit code is settled, and freeing the memory takes a second in which a signal could change it
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)


def resource_usage(state: TrainState) -> dict[str, float]:
    """Return speed and device memory of a training that has ended, for ``reports/timing/``."""
    logger = state.logger
    seconds = logger.seconds
    usage = {
        "training_seconds": round(seconds, 2),
        "samples_per_second": round(logger.samples / seconds, 2),
        "tokens_per_second": round(logger.tokens / seconds, 1),
        "processes": state.accelerator.num_processes,
    }
    if state.accelerator.device.type == "cuda":
        usage["peak_device_memory_mb"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    return usage


if __name__ == "__main__":
    end_with_launcher()
    run()
