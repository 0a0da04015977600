"""Train the classifier on the tokenized splits.

Start: ``python -m stages.train.launch``, which starts it on the devices of ``train.launch``.

Reads: ``data/tokenized/{train,validation}.parquet``, ``data/tokenized/tokenizer/``, ``models/base/``;
``reports/checks/clusters/validation.parquet``, which rows are independent; the
parameters ``seed``, ``data.text_columns``, ``model.config``, ``model.head``, ``train``; the functions in
``project/`` that ``train.loss`` and ``train.metric`` name. Computes: a training loop on accelerate
(stages/train/loop.py); keeps the best weights by the validation metric, or the last. With ``model.head:
frozen``, a linear model on the checkpoint's vectors instead (stages/train/frozen_head.py); with ``auto``,
both, and publishes the better one (stages/train/choice.py). Writes: ``models/classifier/``,
``plots/training/{loss,validation}.tsv``, ``metrics/train.json``; ``reports/validation.parquet``, the
predictions of the published weights for the validation split, which experiments are compared by. During the
run: ``checkpoints/``.
"""

import shutil
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import Tensor
from transformers.utils import logging

from stages.train.choice import HeadChoice, choose_head
from stages.train.data import Inputs, read_inputs
from stages.train.devices import TRAINING_LIBRARIES, create_accelerator
from stages.train.frozen_head import FrozenResult, can_be_frozen, fit_frozen
from stages.train.interruption import TrainingInterrupted, exit_without_cleanup, recorded_signals
from stages.train.launch import INTERRUPTED, STOPPING, end_with_launcher
from stages.train.loop import train_model
from stages.train.optimization import ValidationMetric
from stages.train.progress import TrainingProgress
from stages.train.state import TrainingResult, TrainState
from tuneline.calibration.temperature import calibrated
from tuneline.core.provenance import DevicesUsed, write_provenance
from tuneline.core.records import Metrics, write_record
from tuneline.core.stage import Measurements, run_stage
from tuneline.metrics.stats import Interval
from tuneline.model.architectures import read_base
from tuneline.model.frozen_classifier import TrainedModel
from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.params import Params
from tuneline.params.loading import load_params, warn_of_learning_rate
from tuneline.paths import CLASSIFIER, METRICS, PLOTS, TOKENIZER, VALIDATION_PREDICTIONS
from tuneline.predictions.files import clusters_of_split, write_predictions
from tuneline.runtime.atomic_files import replace_directory
from tuneline.runtime.terminal import say
from tuneline.tasks import DECISIONS, Task
from tuneline.tasks.task import Logits


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

    With ``model.head: auto``, the better one of it and the frozen checkpoint is published. The linear model
    is fitted again when a training resumes: it takes seconds, and gives the same numbers.
    """
    # the linear model that fine-tuning has to beat
    frozen = None
    if params.model.head == "auto" and accelerator.is_main_process:
        if can_be_frozen(params, inputs):
            frozen = fit_frozen(params, inputs, accelerator)
        else:
            say(
                "train: no linear model on the frozen checkpoint: its tokenizer joins two texts so that they"
                " cannot be separated again"
            )
    accelerator.wait_for_everyone()

    with recorded_signals() as interruption:
        try:
            result = train_model(params, inputs, accelerator, interruption)
        except TrainingInterrupted as interrupted:
            exit_interrupted(accelerator, interrupted)

        # from here on, a signal changes nothing: the run ends
        publish_outs(result, frozen, inputs, params)
        usage = resource_usage(result.state)

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
        publish_frozen(fitted, inputs, params)
        publish_curves(fitted.progress, fitted.metric.name, PLOTS / "training")
        publish_measurements(fitted.progress, fitted.logits, fitted.metric, inputs.validation, params)
        usage["training_seconds"] = round(fitted.seconds, 2)
    accelerator.wait_for_everyone()
    return usage


def publish_outs(result: TrainingResult, frozen: FrozenResult | None, inputs: Inputs, params: Params) -> None:
    """Write the outs, then remove the checkpoints: a run killed while publishing resumes from them.

    The curves are of the training, whichever model is published; the metrics are of the published model.
    """
    state = result.state
    split = inputs.validation
    if state.accelerator.is_main_process:
        publish_curves(state.progress, state.metric.name, PLOTS / "training")

        # with model.head: auto, the validation split decides
        choice = None
        if frozen is not None:
            pairs = len(params.data.text_columns) == 2
            clusters = clusters_of_split("validation", len(split))
            choice = choose_head(frozen.logits, result.logits, split, state.metric, pairs, clusters=clusters)
            say(f"train: {choice.sentence}")

        progress = state.progress
        logits = result.logits
        if frozen is not None and choice is not None and choice.is_frozen:
            publish_frozen(frozen, inputs, params)
            progress = frozen.progress
            logits = frozen.logits
        else:
            task = published_task(state.metric, logits, split)
            publish_model(result.model, result.weights, TOKENIZER, CLASSIFIER, task)
        publish_measurements(progress, logits, state.metric, split, params, choice=choice)
    state.checkpoints.remove_all()


def publish_frozen(fitted: FrozenResult, inputs: Inputs, params: Params) -> None:
    """Write the linear model with its frozen checkpoint."""
    model = fitted.model(params, inputs)
    task = published_task(fitted.metric, fitted.logits, inputs.validation)
    publish_model(model, model.state_dict(), TOKENIZER, CLASSIFIER, task)


def published_task(metric: ValidationMetric, logits: Logits, split: TokenizedSplit) -> Task:
    """Return the task with what validation chooses: thresholds, and temperatures, which change no answer."""
    task = metric.decided(logits, split.labels, split.task)
    return calibrated(task, logits, split.labels, clusters_of_split("validation", len(split)))


def publish_measurements(
    progress: TrainingProgress,
    logits: Logits,
    metric: ValidationMetric,
    split: TokenizedSplit,
    params: Params,
    *,
    choice: HeadChoice | None = None,
) -> None:
    """Write the metrics of the published model, and its predictions for the validation split.

    With thresholds, each row is decided by those that the other rows choose.

    Args:
        progress: Evaluations of the run that gave the model.
        logits: Logits of the model for the validation split.
        metric: Validation metric.
        split: The validation split.
        params: The parameters.
        choice: Why the model was chosen, with ``model.head: auto``.
    """
    predictions = metric.predictions(logits, split.labels, split.task)
    clusters = clusters_of_split("validation", len(split))
    write_predictions(
        VALIDATION_PREDICTIONS, split.labels, logits, split.task, predictions=predictions, clusters=clusters
    )
    interval = metric.interval(logits, split.labels, split.task, params.seed, clusters=clusters)
    metrics = training_metrics(progress, metric.name, interval, params.train.keep)
    if choice is not None:
        metrics |= choice.metrics
    write_record(METRICS / "train.json", Metrics.of(metrics))


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


def publish_model(
    model: TrainedModel, weights: dict[str, Tensor], tokenizer: Path, target: Path, task: Task
) -> None:
    """Write a folder in Hugging Face format: safetensors, label names, decisions of the task, tokenizer."""
    if task.decisions:
        model.config.update({DECISIONS: task.decisions})
    # transformers 5.23 would save the path of the base model, and has no public setter
    model.config._name_or_path = ""
    disable_progress_bar: Any = logging.disable_progress_bar
    disable_progress_bar()
    with replace_directory(target) as partial:
        model.save_pretrained(partial, state_dict=weights)
        # as it is: a tokenizer that is loaded and saved again may have other files
        for path in sorted(tokenizer.iterdir()):
            shutil.copyfile(path, partial / path.name)


def publish_curves(progress: TrainingProgress, metric: str, target: Path) -> None:
    """Write the training and the validation curve as TSV files, for ``dvc plots``."""
    with replace_directory(target) as partial:
        training = [(row.step, row.loss, row.learning_rate, row.gradient_norm) for row in progress.logged]
        _write_curve(partial / "loss.tsv", ("step", "loss", "learning_rate", "gradient_norm"), training)
        validation = [(row.step, row.loss, row.metric) for row in progress.evaluated]
        _write_curve(partial / "validation.tsv", ("step", "loss", metric), validation)


def _write_curve(path: Path, header: Sequence[str], rows: Iterable[Sequence[float]]) -> None:
    """Write a TSV file: steps as integers, measurements with 6 digits."""
    with path.open("w", encoding="utf-8") as file:
        file.write("\t".join(header) + "\n")
        for step, *measurements in rows:
            cells = [str(step)]
            cells += [f"{value:.6g}" for value in measurements]
            file.write("\t".join(cells) + "\n")


def training_metrics(
    progress: TrainingProgress, metric: str, interval: Interval | None, keep: str
) -> dict[str, float]:
    """Return the contents of ``metrics/train.json``.

    Loss and metric are of the validation split. The metric of the published weights is named after those that
    ``train.keep`` selects: best or final.
    """
    final = progress.evaluated[-1]
    best = progress.best or final
    metrics: dict[str, float] = {"steps": progress.step, "best_step": best.step, "best_loss": best.loss}
    key = f"best_{metric}"
    metrics[key] = best.metric
    if keep != "best":
        key = f"final_{metric}"
        metrics[key] = final.metric

    if interval is not None:
        metrics[f"{key}_low"] = interval.low
        metrics[f"{key}_high"] = interval.high
    return metrics


def resource_usage(state: TrainState) -> dict[str, float]:
    """Return speed, padding and memory since the process started, for ``reports/timing/train.json``."""
    logger = state.logger
    seconds = logger.seconds
    usage = {
        "training_seconds": round(seconds, 2),
        "samples_per_second": round(logger.samples / seconds, 2),
        "tokens_per_second": round(logger.tokens / seconds, 1),
        "padding_share": round(logger.padding, 4),
        "micro_batch_size": state.micro_batch_size,
        "processes": state.accelerator.num_processes,
    }
    if state.accelerator.device.type == "cuda":
        usage["peak_device_memory_mb"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    return usage


if __name__ == "__main__":
    end_with_launcher()
    run()
