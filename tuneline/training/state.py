"""Training state: set up from the parameters, resumed from a checkpoint, turned into the trained model."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor, nn
from torch.optim import Optimizer

from tuneline.core.params import Params, RunParams, TrainParams
from tuneline.core.paths import CHECKPOINTS
from tuneline.core.runtime.files import write_json
from tuneline.core.runtime.terminal import say
from tuneline.core.stage.arrays import RowNumbers
from tuneline.core.stage.records import content_key
from tuneline.model.linear.pooled_classifier import PooledClassifier, TrainedModel
from tuneline.model.tasks.task import Logits
from tuneline.training.checkpoints import Checkpoints, run_identity
from tuneline.training.cpu import PADDING_MULTIPLE, uses_bf16_layers
from tuneline.training.data import BatchLoader, Inputs, LengthBucketedSampler, check_fit
from tuneline.training.devices import describe_devices, describe_layout, wrap_layers
from tuneline.training.head import (
    TargetScale,
    has_loaded_head,
    output_weights,
    replace_foreign_head,
    start_head,
)
from tuneline.training.interruption import Coordinator, Interruption
from tuneline.training.losses import Loss, new_bias
from tuneline.training.model import adapt, build_model, compute_first_token_only, pooled_classifier
from tuneline.training.optimization import (
    ValidationMetric,
    build_optimizer,
    build_schedule,
    class_weights,
    load_loss,
    total_steps,
)
from tuneline.training.progress import TrainingLogger, TrainingProgress

EVALUATION_BATCH_SIZE = 64
"""Examples, or windows of them, in one forward pass of one process without gradients."""

HEAD_ROWS = 32
"""Rows of train by which the head of a checkpoint is judged before the first step."""


@dataclass
class TrainState:
    """Objects of a run. Model, optimizer and schedule are prepared by the accelerator."""

    accelerator: Accelerator
    params: TrainParams
    run: RunParams
    model: nn.Module
    optimizer: Optimizer
    schedule: Any
    sampler: LengthBucketedSampler
    loss: Loss
    metric: ValidationMetric
    train_loader: BatchLoader
    validation_loader: BatchLoader
    total_steps: int
    target_scale: TargetScale | None
    checkpoints: Checkpoints
    coordinator: Coordinator
    logger: TrainingLogger
    progress: TrainingProgress = field(default_factory=TrainingProgress)
    validation_logits: Logits | None = None
    """Logits of the weights to publish so far; ``None`` if they were computed before this process resumed."""

    @property
    def evaluation_batch_size(self) -> int:
        """Examples in one forward pass of an evaluation: fewer where few fit into memory with gradients."""
        return min(EVALUATION_BATCH_SIZE, 4 * self.params.micro_batch_size)

    def is_finished(self) -> bool:
        """Return True if no training step is left."""
        return self.progress.step >= self.total_steps or self.progress.stopped_early


@dataclass(frozen=True)
class FittedModel:
    """A model that may be published.

    Attributes:
        model: Plain model, without adapters or sharding; only its configuration and class are used.
        weights: Its weights by name; empty in processes other than the main one.
        logits: Logits of these weights for the validation split.
        progress: Evaluations of the run that gave it.
        choice: Entries of ``metrics/train.json`` about why it was chosen, with ``model.head: auto``.
    """

    model: TrainedModel
    weights: dict[str, Tensor]
    logits: Logits
    progress: TrainingProgress
    choice: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TrainingResult(FittedModel):
    """The model of a run, with the state after its last step."""

    state: TrainState


def set_up(
    params: Params, inputs: Inputs, accelerator: Accelerator, interruption: Interruption
) -> TrainState:
    """Build the state of a run before its first step."""
    settings = params.train

    # objective: before the model is built, because functions of the user are tried, and may be wrong
    weights = class_weights(settings, inputs.train)
    function = load_loss(settings, inputs.labels)
    loss = Loss(inputs.labels, settings.label_smoothing, weights, function, settings.contrastive)
    metric = ValidationMetric.load(settings, inputs.labels)

    # model and data
    model, drawn = _build_model(params, inputs)
    if loss.contrastive and not isinstance(model, PooledClassifier):
        if accelerator.is_main_process:
            say("train: no contrastive loss: the checkpoint's own head is trained, and has no pooled vectors")
        loss = replace(loss, contrastive=0.0)
    target_scale = None
    if not inputs.labels.has_classes:
        target_scale = TargetScale.apply(model, drawn, inputs.train.labels)
    trained = adapt(model, settings, drawn)
    sampler = LengthBucketedSampler(inputs.train, settings.global_batch_size, params.training_seed)
    multiple = PADDING_MULTIPLE if uses_bf16_layers(accelerator) else 1
    train_loader = BatchLoader(inputs.train, inputs.pad_token_id, accelerator.device, multiple)
    validation_loader = BatchLoader(inputs.validation, inputs.pad_token_id, accelerator.device, multiple)

    # optimization
    steps = total_steps(settings, sampler.batches_per_epoch)
    optimizer = build_optimizer(trained, settings, accelerator.device)
    schedule = build_schedule(optimizer, settings, steps)
    wrap_layers(accelerator, trained)  # before ``prepare``
    prepared, optimizer, schedule = accelerator.prepare(trained, optimizer, schedule)
    prepared.train()

    return TrainState(
        accelerator=accelerator,
        params=settings,
        run=params.run,
        model=prepared,
        optimizer=optimizer,
        schedule=schedule,
        sampler=sampler,
        loss=loss,
        metric=metric,
        train_loader=train_loader,
        validation_loader=validation_loader,
        total_steps=steps,
        target_scale=target_scale,
        checkpoints=_open_checkpoints(params, accelerator, loss, metric),
        coordinator=Coordinator(accelerator, interruption),
        logger=TrainingLogger(accelerator, inputs.train, metric.name),
    )


def _build_model(params: Params, inputs: Inputs) -> tuple[TrainedModel, frozenset[str]]:
    """Return the model to train and the names of its new weights.

    Where the checkpoint has no head for these labels, it begins with the linear model on the frozen one, if
    there is one: a random head would first train the body towards noise (Kumar et al. 2022,
    "Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution"). The last layer of
    another model computes the first token only, where the classifier reads no other one.
    """
    torch.manual_seed(params.training_seed)  # new weights are drawn from torch's generator
    model, drawn = build_model(params.model, inputs.labels, inputs.tokenizer)
    check_fit(inputs, model.config)

    # a head of the checkpoint that does not mean the labels; and what a new one knows before the first step
    if has_loaded_head(model, drawn):
        rows = np.unique(np.linspace(0, len(inputs.train) - 1, HEAD_ROWS).astype(np.int64))
        logits = _outputs(model, inputs, rows)
        drawn |= replace_foreign_head(model, inputs.labels, logits, inputs.train.labels[rows])
    if inputs.linear_head is not None and not has_loaded_head(model, drawn):
        pooled = pooled_classifier(model, params, inputs.tokenizer, is_frozen=False)
        pooled.head.load_state_dict(inputs.linear_head)
        return pooled, frozenset(output_weights(pooled))
    if params.model.checkpoint is not None:
        bias = new_bias(inputs.labels, inputs.train.labels, class_weights(params.train, inputs.train))
        if bias is not None:
            start_head(model, drawn, bias)
    compute_first_token_only(model)
    return model, drawn


def _outputs(model: TrainedModel, inputs: Inputs, rows: RowNumbers) -> Logits:
    """Return the outputs of an untrained model for rows of train, computed in one batch on the CPU."""
    loader = BatchLoader(inputs.train, inputs.pad_token_id, torch.device("cpu"))
    model.train(mode=False)
    with torch.no_grad():
        outputs = loader.answers(model(**loader.inputs(rows)).logits, rows)
    return outputs.numpy()


def _open_checkpoints(
    params: Params, accelerator: Accelerator, loss: Loss, metric: ValidationMetric
) -> Checkpoints:
    """Open the run's checkpoint folder; its ``run.json`` holds the identity of the run."""
    files: set[Path] = set()
    if loss.function is not None:
        files.update(loss.function.files)
    if metric.custom is not None:
        files.update(metric.custom.function.files)
    identity = run_identity(params, accelerator, sorted(files))
    folder = CHECKPOINTS / content_key(identity)
    if accelerator.is_main_process:
        write_json(folder / "run.json", identity)
    return Checkpoints(accelerator, folder)


def resume(state: TrainState) -> None:
    """Load the newest checkpoint, if any, whatever the layout of the processes that wrote it."""
    progress = state.progress
    newest = state.checkpoints.newest()
    if newest is not None:
        progress = state.checkpoints.load(newest)
        state.logger.info(f"resumes from step {progress.step} of {state.total_steps} ({newest})")

    layout = describe_layout(state.accelerator, state.params.micro_batch_size)
    if progress.layout not in ("", layout):
        # the checkpoint has the states of the generators of other processes, and perhaps of fewer. Dropout
        # does not need them (``_seed_dropout``), but a loss of the user may draw from any of them
        entropy = (state.sampler.seed, progress.step, state.accelerator.process_index)
        set_seed(int(np.random.SeedSequence(entropy).generate_state(1)[0]))
        state.logger.info(
            f"WARNING: the checkpoint was computed by {progress.layout}, and this run continues with"
            f" {layout}. The batches are the same, but sums are rounded differently and dropout may draw"
            " other masks: the model will not have the bytes of an uninterrupted run."
        )

    progress.layout = layout
    state.progress = progress


def load_kept(state: TrainState) -> None:
    """Load the weights that ``train.keep`` selects."""
    if state.params.keep == "best" and state.progress.best_step != state.progress.step:
        state.checkpoints.load(state.checkpoints.path(state.progress.best_step))


def training_result(state: TrainState, params: Params, inputs: Inputs, logits: Logits) -> TrainingResult:
    """Return the loaded weights, a plain model for them, and their logits for the validation split."""
    weights = state.accelerator.get_state_dict(state.model)  # every process: FSDP gathers the weights
    model = state.accelerator.unwrap_model(state.model)
    if not state.accelerator.is_main_process:
        return TrainingResult(model, {}, logits, state.progress, state=state)

    # adapters are merged in a second model: the first one may be sharded
    if state.params.lora is not None:
        plain, drawn = _build_model(params, inputs)
        adapted: Any = adapt(plain, state.params, drawn)
        adapted.load_state_dict(weights)
        model = adapted.merge_and_unload()
        weights = model.state_dict()

    # whoever loads the published weights does not have the hook
    if state.target_scale is not None:
        state.target_scale.fold(weights)
    return TrainingResult(model, weights, logits, state.progress, state=state)


def print_startup_summary(state: TrainState) -> None:
    """Print device and trainable parameters."""
    state.logger.info(describe_devices(state.accelerator))
    parameters = list(state.model.parameters())
    total = sum(parameter.numel() for parameter in parameters)
    trainable = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    state.logger.info(f"{trainable:,} of {total:,} parameters are trainable")
