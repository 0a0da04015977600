"""Training with ``model.head: frozen``: a linear model on the checkpoint's vectors.

The main process fits it. No optimizer runs.
"""

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

from stages.train.data import Inputs, check_fit
from stages.train.devices import describe_devices
from stages.train.model import build_model
from stages.train.optimization import ValidationMetric
from stages.train.progress import Evaluation, TrainingProgress
from stages.train.state import EVALUATION_BATCH_SIZE
from tuneline.linear.linear_model import LinearModel, Vectors, most_rows
from tuneline.model.batches import compute_outputs
from tuneline.model.encoded_columns import pair_separators
from tuneline.model.frozen_classifier import FrozenClassifier, PairTemplate
from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.params import Params
from tuneline.runtime.terminal import phase, progress, say
from tuneline.tasks import Task
from tuneline.tasks.task import Logits


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

    def model(self, params: Params, inputs: Inputs) -> FrozenClassifier:
        """Return the classifier."""
        model = _untrained(params, inputs)
        model.head.load_state_dict(self.head)
        return model.eval()


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
        "train: the checkpoint is frozen; a linear model is fitted to its mean-pooled vectors "
        f"({features:,} features, {len(train):,} of {len(inputs.train):,} rows)"
    )

    def compute_vectors(batch: dict[str, Tensor]) -> Tensor:
        return model.features(batch["input_ids"], batch["attention_mask"])

    def compute_logits(batch: dict[str, Tensor]) -> Tensor:
        logits: Tensor = model(**batch).logits
        return logits

    def computed(
        compute: Callable[[dict[str, Tensor]], Tensor], split: TokenizedSplit, width: int
    ) -> Vectors:
        # Of a row in several windows, it is the mean of theirs: the logits of a linear model of the mean
        # vector are the mean of the logits, which is the answer of the published model, too.
        return compute_outputs(
            compute,
            split,
            np.empty((len(split), width), dtype=np.float32),
            pad_token_id=inputs.pad_token_id,
            device=accelerator.device,
            batch_size=EVALUATION_BATCH_SIZE,
        )

    # fit
    with progress("train"):
        phase("vectors of train and validation")
        train_vectors = computed(compute_vectors, train, features)
        validation_vectors = computed(compute_vectors, validation, features)

        phase("linear model")
        _fit_head(
            model, (train_vectors, train.labels), (validation_vectors, validation.labels), inputs.labels
        )

        phase("logits of validation")
        logits = computed(compute_logits, inputs.validation, inputs.labels.outputs)

    # evaluation
    metric = ValidationMetric.load(params.train, inputs.labels)
    scores = metric.scores(logits, inputs.validation.labels, inputs.labels)
    evaluation = Evaluation(0, scores["loss"], scores[metric.name])
    say(f"train: validation loss {evaluation.loss:.4f}, {metric.name} {evaluation.metric:.4f}")
    return FrozenResult(
        head={name: values.cpu() for name, values in model.head.state_dict().items()},
        logits=logits,
        metric=metric,
        progress=TrainingProgress(evaluated=[evaluation]),
        seconds=time.monotonic() - started,
    )


def can_be_frozen(params: Params, inputs: Inputs) -> bool:
    """Return True unless the tokenizer joins the texts of a pair so that they cannot be separated."""
    tokenizer: Any = inputs.tokenizer
    return len(params.data.text_columns) == 1 or pair_separators(tokenizer) is not None


def _untrained(params: Params, inputs: Inputs) -> FrozenClassifier:
    """Return the checkpoint without its own head, and with an untrained linear one."""
    built, _ = build_model(params.model, inputs.labels, inputs.tokenizer)
    encoder = built.base_model
    if not isinstance(encoder, PreTrainedModel):
        raise AssertionError(f"{type(built).__name__} has no base model")
    check_fit(inputs, encoder.config)
    template = None
    if len(params.data.text_columns) == 2:
        tokenizer: Any = inputs.tokenizer
        template = PairTemplate.of(tokenizer)
    return FrozenClassifier(encoder, template)


def _fit_head(
    model: FrozenClassifier,
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
