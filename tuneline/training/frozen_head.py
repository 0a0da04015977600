"""Training with ``model.head: frozen``: a linear model on the checkpoint's vectors.

The main process fits it. No optimizer runs.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor

from tuneline.core.params import Params
from tuneline.core.runtime.terminal import phase, progress, say
from tuneline.judge.metrics.predictions import Predictions
from tuneline.model.linear.linear_model import LinearModel, Vectors, most_rows
from tuneline.model.linear.pooled_classifier import PooledClassifier
from tuneline.model.tasks import Task
from tuneline.model.tasks.task import Logits
from tuneline.model.tokens.batches import compute_outputs
from tuneline.model.tokens.encoded_columns import pair_separators
from tuneline.model.tokens.tokenized_splits import TokenizedSplit
from tuneline.training.data import Inputs, check_fit
from tuneline.training.devices import describe_devices
from tuneline.training.model import build_model, pooled_classifier
from tuneline.training.optimization import ValidationMetric
from tuneline.training.progress import Evaluation, TrainingProgress
from tuneline.training.state import EVALUATION_BATCH_SIZE, FittedModel


@dataclass(frozen=True)
class FrozenResult:
    """A fitted head, without its checkpoint: a training may follow, which needs the memory.

    Attributes:
        head: Weights of the linear layer by name, on the CPU.
        logits: Logits of the classifier with this head for the validation split.
        metric: Validation metric.
        progress: Progress with the one evaluation of the head, at step 0.
        seconds: Duration of the fit.
    """

    head: dict[str, Tensor]
    logits: Logits
    metric: ValidationMetric
    progress: TrainingProgress
    seconds: float

    def classifier(self, params: Params, inputs: Inputs) -> FittedModel:
        """Return the head with its frozen checkpoint."""
        model = _untrained(params, inputs)
        model.head.load_state_dict(self.head)
        return FittedModel(model.eval(), model.state_dict(), self.logits, self.progress)


def fit_frozen(params: Params, inputs: Inputs, accelerator: Accelerator) -> FrozenResult:
    """Fit the head on the train split; the validation split chooses its regularization.

    Rows are drawn with the seed if there are too many. Only the main process calls it.
    """
    started = time.monotonic()

    # model
    torch.manual_seed(params.training_seed)  # a pooler that the checkpoint lacks is drawn, and not used
    model = _untrained(params, inputs).to(accelerator.device).eval()
    features = model.head.in_features
    say(f"train: {describe_devices(accelerator)}")

    # data
    limit = most_rows(model.encoder.config.hidden_size, model.template is not None)
    train = inputs.train.sample(limit, params.training_seed)
    validation = inputs.validation.sample(limit, params.training_seed)
    say(
        "train: the checkpoint is frozen; a linear model is fitted to its pooled vectors "
        f"({features:,} features, {len(train):,} of {len(inputs.train):,} rows)"
    )

    def vectors(split: TokenizedSplit) -> Vectors:
        # Of a row in several windows, it is the mean of theirs: the logits of a linear model of the mean
        # vector are the mean of the logits, which is the answer of the published model, too.
        return compute_outputs(
            lambda batch: model.features(batch["input_ids"], batch["attention_mask"]),
            split,
            np.empty((len(split), features), dtype=np.float32),
            pad_token_id=inputs.pad_token_id,
            device=accelerator.device,
            batch_size=EVALUATION_BATCH_SIZE,
        )

    # fit
    with progress("train"):
        phase("vectors of train and validation")
        train_vectors = vectors(train)
        validation_vectors = vectors(validation)

        phase("linear model")
        _fit_head(
            model, (train_vectors, train.labels), (validation_vectors, validation.labels), inputs.labels
        )

        phase("logits of validation")
        logits = validation_logits(model, inputs, accelerator.device)

    # evaluation
    metric = ValidationMetric.load(params.train, inputs.labels)
    progress_of_head = evaluated_progress(0, metric, logits, inputs.validation)
    evaluation = progress_of_head.evaluated[-1]
    say(f"train: validation loss {evaluation.loss:.4f}, {metric.name} {evaluation.metric:.4f}")
    return FrozenResult(
        head={name: values.cpu() for name, values in model.head.state_dict().items()},
        logits=logits,
        metric=metric,
        progress=progress_of_head,
        seconds=time.monotonic() - started,
    )


def validation_logits(model: PooledClassifier, inputs: Inputs, device: torch.device) -> Logits:
    """Return the logits of a model on the device for the validation split, ``(rows, outputs)``."""

    def compute(batch: dict[str, Tensor]) -> Tensor:
        logits: Tensor = model(**batch).logits
        return logits

    return compute_outputs(
        compute,
        inputs.validation,
        np.empty((len(inputs.validation), inputs.labels.outputs), dtype=np.float32),
        pad_token_id=inputs.pad_token_id,
        device=device,
        batch_size=EVALUATION_BATCH_SIZE,
    )


def evaluated_progress(
    step: int, metric: ValidationMetric, logits: Logits, split: TokenizedSplit
) -> TrainingProgress:
    """Return the progress of weights that no step has evaluated, with the one evaluation of their logits."""
    predictions = Predictions.of_logits(split.labels, logits, split.task)
    scores = metric.scores(metric.measured(predictions))
    evaluation = Evaluation(step, scores["loss"], scores[metric.name])
    return TrainingProgress(step=step, evaluated=[evaluation], best_step=step)


def fits_linear_model(params: Params, inputs: Inputs) -> bool:
    """Return True if a linear model is fitted to the frozen checkpoint before it is fine-tuned.

    Of pairs, it is with ``model.head: auto`` only. The reason is printed if the tokenizer joins the texts of
    a pair in a way that cannot be undone, so only the main process calls it.
    """
    windows = inputs.train.windows
    has_maximum = windows is not None and windows.answer == "max"  # it is of logits, not of a mean vector
    if params.model.checkpoint is None or has_maximum:
        return False
    if len(params.data.text_columns) == 1:
        return True
    tokenizer: Any = inputs.tokenizer
    if params.model.head == "auto" and pair_separators(tokenizer) is None:
        say(
            "train: no linear model on the frozen checkpoint: its tokenizer joins two texts so that they"
            " cannot be separated again"
        )
        return False
    return params.model.head == "auto"


def _untrained(params: Params, inputs: Inputs) -> PooledClassifier:
    """Return the checkpoint without its own head, and with an untrained linear one."""
    built, _ = build_model(params.model, inputs.labels, inputs.tokenizer)
    classifier = pooled_classifier(built, params, inputs.tokenizer, is_frozen=True)
    check_fit(inputs, classifier.config)
    return classifier


def _fit_head(
    model: PooledClassifier,
    train: tuple[Vectors, NDArray[Any]],
    validation: tuple[Vectors, NDArray[Any]],
    labels: Task,
) -> None:
    """Fit the linear layer to the vectors and labels of two splits."""
    has_cosine = model.template is not None
    fitted = LinearModel.fit(train, validation, labels, cosine_last=has_cosine, predicts=False)
    weight, bias = fitted.weights(model.head.in_features, labels)
    # this casts them to float32, the type of the layer
    model.head.load_state_dict({"weight": torch.from_numpy(weight), "bias": torch.from_numpy(bias)})
