"""Training with ``model.head: frozen``: the linear model on the checkpoint's vectors, fitted by the main process. No optimizer runs."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from stages.train.data import BatchLoader, Inputs, Rows, check_fit
from stages.train.devices import describe_devices
from stages.train.model import build_model
from stages.train.optimization import Logits, ValidationMetric
from stages.train.progress import Evaluation, TrainingProgress
from tuneline.core.terminal import phase, progress, say
from tuneline.model.batches import TokenizedSplit, length_sorted_batches
from tuneline.model.encoding import pair_separators
from tuneline.model.frozen_classifier import FrozenClassifier, PairTemplate
from tuneline.model.linear import LinearModel, Vectors, most_rows
from tuneline.params import Params
from tuneline.tasks import Task


@dataclass(frozen=True)
class FrozenResult:
    """A fitted head, the logits of the classifier with it for the validation split, and the one evaluation of it, at step 0.

    The checkpoint is not kept: a training may follow.
    """

    head: dict[str, Tensor]
    logits: Logits
    metric: ValidationMetric
    progress: TrainingProgress
    seconds: float

    def model(self, params: Params, inputs: Inputs) -> FrozenClassifier:
        """Return the classifier."""
        model = _untrained(params, inputs)
        model.head.load_state_dict(self.head)
        return model.eval()


def fit_frozen(params: Params, inputs: Inputs, accelerator: Accelerator) -> FrozenResult:
    """Fit the head on rows of the train split, drawn with the seed if there are too many; the validation split chooses its regularization.

    Only the main process calls it.
    """
    started = time.monotonic()
    torch.manual_seed(params.training_seed)  # a pooler that the checkpoint lacks is drawn, and not used
    model = _untrained(params, inputs).to(accelerator.device).eval()
    say(f"train: {describe_devices(accelerator)}")
    most = most_rows(model.encoder.config.hidden_size, model.template is not None)
    splits = (inputs.train, inputs.validation)
    train, others = (_sample(split, most, params.training_seed) for split in splits)
    say(
        "train: the checkpoint is frozen; a linear model is fitted to its mean-pooled vectors "
        f"({model.head.in_features:,} features, {len(train):,} of {len(inputs.train):,} rows)"
    )
    size, width = params.train.evaluation_batch_size, model.head.in_features
    loaders = [BatchLoader(split, inputs.pad_token_id, accelerator.device) for split in splits]
    with progress("train"):
        phase("vectors of train and validation")
        known, unseen = (
            _computed(
                loader,
                rows,
                width,
                size,
                lambda batch: model.features(batch["input_ids"], batch["attention_mask"]),
            )
            for loader, rows in zip(loaders, (train, others), strict=True)
        )
        phase("linear model")
        _fit_head(
            model,
            (known, inputs.train.labels[train]),
            (unseen, inputs.validation.labels[others]),
            inputs.labels,
        )
        phase("logits of validation")
        every = np.arange(len(inputs.validation))
        logits = _computed(
            loaders[1], every, inputs.labels.outputs, size, lambda batch: model(**batch).logits
        )
    metric = ValidationMetric.load(params.train, inputs.labels)
    scores = metric.scores(logits, inputs.validation.labels, inputs.labels)
    evaluation = Evaluation(0, scores["loss"], scores[metric.name])
    say(f"train: validation loss {evaluation.loss:.4f}, {metric.name} {evaluation.metric:.4f}")
    head = {name: values.cpu() for name, values in model.head.state_dict().items()}
    return FrozenResult(
        head, logits, metric, TrainingProgress(evaluated=[evaluation]), time.monotonic() - started
    )


def can_be_frozen(params: Params, inputs: Inputs) -> bool:
    """Return True unless the tokenizer joins the texts of a pair in a way from which they cannot be separated."""
    tokenizer: Any = inputs.tokenizer
    return len(params.data.text_columns) == 1 or pair_separators(tokenizer) is not None


def _untrained(params: Params, inputs: Inputs) -> FrozenClassifier:
    """Return the checkpoint without its own head, and with an untrained linear one."""
    built, _ = build_model(params.model, inputs.labels, inputs.tokenizer)
    encoder = built.base_model
    if not isinstance(encoder, PreTrainedModel):
        raise AssertionError(f"{type(built).__name__} has no base model")
    check_fit(inputs, encoder.config)
    pairs = len(params.data.text_columns) == 2
    tokenizer: Any = inputs.tokenizer
    return FrozenClassifier(encoder, PairTemplate.of(tokenizer) if pairs else None)


def _sample(split: TokenizedSplit, most: int, seed: int) -> Rows:
    """Return at most ``most`` rows, in the order of the file."""
    rows = np.arange(len(split))
    if len(split) > most:
        rows = np.sort(np.random.default_rng(seed).choice(len(split), most, replace=False))
    return rows


def _computed(
    loader: BatchLoader, rows: Rows, width: int, size: int, compute: Callable[[dict[str, Tensor]], Tensor]
) -> Vectors:
    """Return what the model computes of some rows, float32 of shape ``(rows, width)``; rows of similar length share a batch."""
    values = np.empty((len(rows), width), dtype=np.float32)
    with torch.inference_mode():
        for batch in length_sorted_batches(loader.split.lengths_of(rows), size):
            values[batch] = compute(loader.inputs(rows[batch])).float().cpu().numpy()
    return values


def _fit_head(
    model: FrozenClassifier,
    train: tuple[Vectors, NDArray[Any]],
    validation: tuple[Vectors, NDArray[Any]],
    labels: Task,
) -> None:
    fitted = LinearModel.fit(train, validation, labels, cosine_last=model.template is not None)
    weight, bias = fitted.weights(model.head.in_features, labels)
    model.head.load_state_dict(
        {"weight": torch.from_numpy(weight), "bias": torch.from_numpy(bias)}
    )  # cast to float32
