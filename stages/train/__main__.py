"""Train the classifier on the tokenized splits.

Start: ``python -m stages.train.launch``, which starts it on the devices of ``train.launch``.

Reads: ``data/tokenized/{train,validation}.parquet``, ``data/tokenized/tokenizer/``, ``models/base/``;
``reports/checks/clusters/validation.parquet``, which rows are independent; the
parameters ``seed``, ``data.text_columns``, ``model.config``, ``model.head``, ``train``; the functions in
``project/`` that ``train.loss`` and ``train.metric`` name. Computes: a training loop on accelerate
(stages/train/loop.py), which begins with a linear model on the checkpoint's vectors
(stages/train/frozen_head.py); keeps the best weights by the validation metric, or the last. With
``model.head: frozen``, the linear model alone; with ``auto``, publishes the one, the other or an average of
both (stages/train/choice.py). Writes: ``models/classifier/``, ``plots/training/{loss,validation}.tsv``,
``metrics/train.json``; ``reports/validation.parquet``, the predictions of the published weights for the
validation split, which experiments are compared by. During the run: ``checkpoints/``.
"""

import shutil
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, Self

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import broadcast_object_list
from torch import Tensor
from transformers.utils import logging

from stages.train.averaging import averaged, averaged_logits
from stages.train.choice import begins_with_linear_model, choose_head
from stages.train.data import Inputs, read_inputs
from stages.train.devices import TRAINING_LIBRARIES, create_accelerator
from stages.train.frozen_head import FrozenResult, evaluated_progress, fit_frozen, fits_linear_model
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
from tuneline.model.pooled_classifier import LinearHead, PooledClassifier, TrainedModel
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
        publish_curves(fitted.progress, fitted.metric.name, PLOTS / "training")
        publish(Published.of_frozen(fitted, params, inputs), fitted.metric, inputs.validation, params)
        usage["training_seconds"] = round(fitted.seconds, 2)
    accelerator.wait_for_everyone()
    return usage


@dataclass(frozen=True)
class Published:
    """The model that is published.

    Attributes:
        model: The model; its configuration and class are used.
        weights: Its weights by name.
        logits: Its logits for the validation split.
        progress: Evaluations of the run that gave it.
        choice: Entries of ``metrics/train.json`` about why it was chosen, with ``model.head: auto``.
    """

    model: TrainedModel
    weights: dict[str, Tensor]
    logits: Logits
    progress: TrainingProgress
    choice: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of_frozen(cls, fitted: FrozenResult, params: Params, inputs: Inputs) -> Self:
        """Return the linear model with its frozen checkpoint."""
        model = fitted.model(params, inputs)
        return cls(model, model.state_dict(), fitted.logits, fitted.progress)


def publish_outs(result: TrainingResult, frozen: FrozenResult | None, inputs: Inputs, params: Params) -> None:
    """Write the outs, then remove the checkpoints: a run killed while publishing resumes from them.

    The curves are of the training, whichever model is published; the metrics are of the published model.
    """
    state = result.state
    if state.accelerator.is_main_process:
        publish_curves(state.progress, state.metric.name, PLOTS / "training")
        published = Published(result.model, result.weights, result.logits, state.progress)
        if frozen is not None and params.model.head == "auto":
            published = choose_published(published, frozen, result, inputs, params)
        publish(published, state.metric, inputs.validation, params)
    state.checkpoints.remove_all()


def choose_published(
    tuned: Published, frozen: FrozenResult, result: TrainingResult, inputs: Inputs, params: Params
) -> Published:
    """Return the fine-tuned model, the linear one on the frozen checkpoint, or an average of both."""
    split = inputs.validation
    metric = result.state.metric
    start = Published.of_frozen(frozen, params, inputs)

    # the validation split decides
    candidates = {0.0: start.logits, 1.0: tuned.logits}
    if isinstance(start.model, PooledClassifier) and isinstance(tuned.model, PooledClassifier):
        candidates |= averaged_logits(start.model, result, inputs)
    choice = choose_head(candidates, split, metric, clusters=clusters_of_split("validation", len(split)))
    say(f"train: {choice.sentence}")

    if choice.share == 0:
        return replace(start, choice=choice.metrics)
    if choice.share == 1:
        return replace(tuned, choice=choice.metrics)
    logits = candidates[choice.share]
    weights = averaged(start.weights, tuned.weights, choice.share)
    progress = evaluated_progress(tuned.progress.step, metric, logits, split)
    return Published(tuned.model, weights, logits, progress, choice.metrics)


def publish(published: Published, metric: ValidationMetric, split: TokenizedSplit, params: Params) -> None:
    """Write the model, its metrics, and its predictions for the validation split.

    The task of the model has what validation chooses: thresholds, and temperatures, which change no answer.
    In the measurements, each row is decided by thresholds that the other rows choose.
    """
    logits = published.logits
    clusters = clusters_of_split("validation", len(split))
    task = calibrated(metric.decided(logits, split.labels, split.task), logits, split.labels, clusters)
    publish_model(published.model, published.weights, TOKENIZER, CLASSIFIER, task)

    # measurements
    predictions = metric.predictions(logits, split.labels, split.task)
    write_predictions(
        VALIDATION_PREDICTIONS, split.labels, logits, split.task, predictions=predictions, clusters=clusters
    )
    interval = metric.interval(logits, split.labels, split.task, params.seed, clusters=clusters)
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
