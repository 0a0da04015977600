"""What a training publishes: the model in Hugging Face format, its curves, and its measurements."""

import copy
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers.utils import logging

from tuneline.core.params import Params
from tuneline.core.runtime.files import replace_directory
from tuneline.core.runtime.terminal import say
from tuneline.judge.metrics.predictions import clusters_of_split
from tuneline.judge.metrics.stats import Estimate
from tuneline.model.linear.pooled_classifier import PooledClassifier, TrainedModel
from tuneline.model.tasks import DECISIONS, Task
from tuneline.model.tasks.task import Logits
from tuneline.training.choice import choose_head
from tuneline.training.data import Inputs
from tuneline.training.frozen_head import FrozenResult, evaluated_progress, validation_logits
from tuneline.training.progress import TrainingProgress
from tuneline.training.state import FittedModel, TrainingResult


def choose_published(
    tuned: TrainingResult, frozen: FrozenResult, inputs: Inputs, params: Params
) -> FittedModel:
    """Return the fine-tuned model, the linear one on the frozen checkpoint, or an average of both."""
    split = inputs.validation
    metric = tuned.state.metric
    start = frozen.classifier(params, inputs)

    # the validation split decides
    candidates = {0.0: start.logits, 1.0: tuned.logits}
    if isinstance(start.model, PooledClassifier) and isinstance(tuned.model, PooledClassifier):
        candidates |= averaged_logits(start.model, tuned, inputs)
    clusters = clusters_of_split("validation", len(split))
    is_contrastive = tuned.state.loss.contrastive > 0
    choice = choose_head(candidates, split, metric, clusters=clusters, is_contrastive=is_contrastive)
    say(f"train: {choice.sentence}")

    if choice.share == 0:
        return replace(start, choice=choice.metrics)
    if choice.share == 1:
        return replace(tuned, choice=choice.metrics)
    logits = candidates[choice.share]
    weights = averaged(start.weights, tuned.weights, choice.share)
    progress = evaluated_progress(tuned.progress.step, metric, logits, split)
    return FittedModel(tuned.model, weights, logits, progress, choice.metrics)


SHARES = (0.25, 0.5, 0.75)
"""Shares of the fine-tuned weights that are tried in averages with the linear model on the frozen checkpoint.

Weights between both often predict new rows better than either
(Wortsman et al. 2022, "Robust fine-tuning of zero-shot models").
"""


def averaged(start: Mapping[str, Tensor], tuned: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """Return the weights that are ``share`` of the way from those of the start to the fine-tuned ones."""
    weights = {}
    for name, values in start.items():
        weights[name] = values.lerp(tuned[name].to(values), share)
    return weights


def averaged_logits(start: PooledClassifier, tuned: TrainingResult, inputs: Inputs) -> dict[float, Logits]:
    """Return the logits of averages for the validation split, by their share; ``start`` keeps its weights."""
    device = tuned.state.accelerator.device
    model = copy.deepcopy(start).to(device)
    logits = {}
    for share in SHARES:
        model.load_state_dict(averaged(start.state_dict(), tuned.weights, share))
        logits[share] = validation_logits(model, inputs, device)
    return logits


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
    progress: TrainingProgress, metric: str, interval: Estimate | None, keep: str
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
