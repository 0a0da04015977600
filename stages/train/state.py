"""Training state: set up from the parameters, resumed from a checkpoint, turned into the trained model."""

import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor, nn
from torch.optim import Optimizer
from transformers import PreTrainedModel

from stages.train.checkpoints import Checkpoints, check_shared, common_identity, library_versions
from stages.train.cpu import uses_bf16_layers
from stages.train.cpu.bf16 import PADDING_MULTIPLE
from stages.train.data import BatchLoader, Inputs, LengthBucketedSampler, Rows, check_fit, shard_batch
from stages.train.devices import (
    compile_in_place,
    configure_plugins,
    describe_devices,
    processor_kind,
    sharding,
)
from stages.train.embeddings import fold_embeddings, train_used_embeddings, used_embeddings
from stages.train.heads import logged_label, new_bias, scales_targets, uniform_logits
from stages.train.interruption import Coordinator, Interruption
from stages.train.model import TargetScale, adapt, build_model, compute_first_token_only, start_head
from stages.train.optimization import (
    Loss,
    ValidationMetric,
    build_loss,
    build_optimizer,
    build_schedule,
    class_weights,
    total_steps,
)
from stages.train.progress import TrainingLogger, TrainingProgress
from tuneline.core.hashes import content_key
from tuneline.core.training_devices import TrainingSegment
from tuneline.metrics.functions import example_labels
from tuneline.params import Params, RunParams, TrainParams
from tuneline.paths import CHECKPOINTS
from tuneline.runtime.atomic_files import write_json
from tuneline.runtime.errors import DataError
from tuneline.tasks import Task
from tuneline.tasks.task import Logits


@dataclass
class TrainState:
    """Objects of a run. Model, optimizer and schedule are prepared by the accelerator.

    ``micro_batch_size`` may be smaller than the parameter after running out of memory.
    """

    accelerator: Accelerator
    params: TrainParams
    run: RunParams
    micro_batch_size: int
    evaluation_batch_size: int
    model: nn.Module
    optimizer: Optimizer
    schedule: Any
    sampler: LengthBucketedSampler
    loss: Loss
    metric: ValidationMetric
    train_loader: BatchLoader
    validation_loader: BatchLoader
    total_steps: int
    first_token_only: bool
    target_scale: TargetScale | None
    identity: Mapping[str, Any]
    checkpoints: Checkpoints
    coordinator: Coordinator
    logger: TrainingLogger
    progress: TrainingProgress = field(default_factory=TrainingProgress)
    validation_logits: Logits | None = None
    """Logits of the weights to publish so far; ``None`` if they were computed before this process resumed."""

    def rows_at_once(self, batch: Rows) -> int:
        """Return the number of examples of a batch that go through the model at once, in each process.

        Of examples in several windows, each window counts.
        """
        tokens = self.params.micro_batch_tokens
        if tokens is None:
            return self.micro_batch_size
        # after running out of memory, the tokens are reduced by the same factor as the size
        allowed_tokens = tokens * self.micro_batch_size // self.params.micro_batch_size
        allowed_rows = allowed_tokens // self.train_loader.width(batch)
        return max(min(self.micro_batch_size, allowed_rows), 1)

    def is_finished(self) -> bool:
        """Return True if no training step is left."""
        return self.progress.step >= self.total_steps or self.progress.stopped_early


@dataclass(frozen=True)
class TrainingResult:
    """Result of a run.

    Attributes:
        state: State after the last step.
        model: Plain model, without adapters or sharding; only its configuration and class are used.
        weights: Trained weights by name; empty in processes other than the main one.
        logits: Logits of these weights for the validation split.
    """

    state: TrainState
    model: PreTrainedModel
    weights: dict[str, Tensor]
    logits: Logits


def set_up(
    params: Params,
    inputs: Inputs,
    accelerator: Accelerator,
    interruption: Interruption,
    micro_batch_size: int,
) -> TrainState:
    """Build the state of a run before its first step."""
    settings = params.train

    # objective: before the model is built, because functions of the user are tried, and may be wrong
    loss = build_loss(settings, inputs.train)
    metric = ValidationMetric.load(settings, inputs.labels)
    identity = common_identity(accelerator, params, function_files(loss, metric))

    # model and data
    model, first_token_only, target_scale = _set_up_model(
        params, inputs, divisible=sharding(accelerator) is None
    )
    sampler = LengthBucketedSampler(
        inputs.train, settings.global_batch_size, settings.bucket_window, params.training_seed
    )
    train_loader, validation_loader = _loaders(inputs, accelerator, settings)

    # optimization
    steps = total_steps(settings, sampler.batches_per_epoch)
    optimizer = build_optimizer(model, settings, accelerator.device)
    schedule = build_schedule(optimizer, settings, steps)

    # devices: the plugins are configured before ``prepare``, which reads them
    configure_plugins(accelerator, model, micro_batch_size, settings.max_grad_norm)
    if settings.compile is not None:
        compile_in_place(model, settings.compile)
    prepared, optimizer, schedule = accelerator.prepare(model, optimizer, schedule)
    prepared.train()

    return TrainState(
        accelerator=accelerator,
        params=settings,
        run=params.run,
        micro_batch_size=micro_batch_size,
        evaluation_batch_size=settings.evaluation_batch_size,
        model=prepared,
        optimizer=optimizer,
        schedule=schedule,
        sampler=sampler,
        loss=loss,
        metric=metric,
        train_loader=train_loader,
        validation_loader=validation_loader,
        total_steps=steps,
        first_token_only=first_token_only,
        target_scale=target_scale,
        identity=identity,
        checkpoints=_open_checkpoints(params, accelerator, identity),
        coordinator=Coordinator(accelerator, interruption, params.run.checkpoint_every_minutes),
        logger=TrainingLogger(accelerator, train_loader, metric.name),
    )


def _loaders(
    inputs: Inputs, accelerator: Accelerator, params: TrainParams
) -> tuple[BatchLoader, BatchLoader]:
    """Return the loaders of the train and the validation split."""
    multiple = 1
    if uses_bf16_layers(accelerator, compiled=params.compile is not None):
        multiple = PADDING_MULTIPLE
    train = BatchLoader(inputs.train, inputs.pad_token_id, accelerator.device, multiple)
    validation = BatchLoader(inputs.validation, inputs.pad_token_id, accelerator.device, multiple)
    return train, validation


def _set_up_model(
    params: Params, inputs: Inputs, divisible: bool
) -> tuple[nn.Module, bool, TargetScale | None]:
    """Return the model to train, if its last layer computes one token only, and the scale of its targets.

    With ``divisible``, it trains only the token embeddings that the train split uses, if they are few.
    """
    torch.manual_seed(params.training_seed)  # new weights are drawn from torch's generator
    model, drawn = build_model(params.model, inputs.labels, inputs.tokenizer)
    check_fit(inputs, model.config)

    # what a new head of a checkpoint can know before the first step
    if params.model.checkpoint is not None:
        bias = new_bias(inputs.labels, inputs.train.labels, class_weights(params.train, inputs.train))
        if bias is not None:
            start_head(model, drawn, bias)

    # changes of the forward pass, then of what is trained
    first_token_only = params.train.first_token_only and compute_first_token_only(model)
    target_scale = None
    if scales_targets(inputs.labels):
        target_scale = TargetScale.apply(model, drawn, inputs.train.labels)
    adapted = adapt(model, params.train, drawn)
    if divisible and params.train.lora is None:
        train_used_embeddings(model, params.train, inputs.train.values["input_ids"], inputs.pad_token_id)
    return adapted, first_token_only, target_scale


def function_files(loss: Loss, metric: ValidationMetric) -> list[Path]:
    """Return the files of the user that determine the model."""
    files: set[Path] = set()
    if loss.function is not None:
        files.update(loss.function.files)
    if metric.custom is not None:
        files.update(metric.custom.function.files)
    return sorted(files)


def _open_checkpoints(params: Params, accelerator: Accelerator, identity: Mapping[str, Any]) -> Checkpoints:
    """Open the run's checkpoint folder; its ``run.json`` holds the identity of the run."""
    folder = CHECKPOINTS / content_key(identity)
    if accelerator.is_main_process:
        write_json(folder / "run.json", identity)
    check_shared(accelerator, folder)
    return Checkpoints(accelerator, folder, params.run.keep_checkpoints)


def resume(state: TrainState) -> None:
    """Load the newest complete checkpoint, if any, whatever the layout of the processes that wrote it."""
    progress = state.progress
    newest = state.checkpoints.newest(needs_best=state.params.keep == "best")
    if newest is not None:
        progress = state.checkpoints.load(newest)
        state.logger.info(f"resumes from step {progress.step} of {state.total_steps} ({newest})")
        # the size may have been halved when memory ran out; a parameter that changed since is a new request
        if progress.requested_micro_batch_size == state.params.micro_batch_size:
            state.micro_batch_size = min(state.micro_batch_size, progress.segments[-1].micro_batch_size)

    segment = _training_segment(state, progress.step)
    previous = progress.begin_segment(segment)
    if previous is not None:
        _seed_generators(state, progress.step)
        hint = ""
        if previous.has_layout_of(segment.model_copy(update={"threads": previous.threads})):
            hint = f" OMP_NUM_THREADS={previous.threads} gives the same."
        state.logger.info(
            f"WARNING: the checkpoint was computed by {previous}, and this run continues with {segment}. The"
            " batches are the same, but sums are rounded differently and dropout may draw other masks: the"
            f" model will not have the bytes of an uninterrupted run.{hint}"
        )

    progress.requested_micro_batch_size = state.params.micro_batch_size
    state.progress = progress


def _training_segment(state: TrainState, step: int) -> TrainingSegment:
    """Return the layout and the machine that train from a step on."""
    accelerator = state.accelerator
    threads = None
    if accelerator.device.type == "cpu":
        threads = torch.get_num_threads()
    return TrainingSegment(
        step=step,
        device=accelerator.device.type,
        processes=accelerator.num_processes,
        micro_batch_size=state.micro_batch_size,
        micro_batch_tokens=state.params.micro_batch_tokens,
        threads=threads,
        processor=processor_kind(accelerator.device, accelerator.mixed_precision),
        libraries={"python": platform.python_version(), **library_versions()},
    )


def _seed_generators(state: TrainState, step: int) -> None:
    """Seed all random generators of this process anew.

    The checkpoint has the states of the generators of other processes, and perhaps of fewer. Dropout does not
    need it (see ``stages.train.loop``), but a loss of the user may draw from any of them.
    """
    entropy = (state.sampler.seed, step, state.accelerator.process_index)
    set_seed(int(np.random.SeedSequence(entropy).generate_state(1)[0]))


def load_kept(state: TrainState) -> None:
    """Load the weights that ``train.keep`` selects."""
    if state.params.keep == "best" and state.progress.best_step != state.progress.step:
        state.checkpoints.load(state.checkpoints.path(state.progress.best_step))


def training_result(state: TrainState, params: Params, inputs: Inputs, logits: Logits) -> TrainingResult:
    """Return the loaded weights, a plain model for them, and their logits for the validation split."""
    weights = state.accelerator.get_state_dict(state.model)  # every process: FSDP gathers the weights
    model = state.accelerator.unwrap_model(state.model)
    if not state.accelerator.is_main_process:
        return TrainingResult(state, model, {}, logits)

    # adapters are merged in a second model: the first one may be sharded
    if state.params.lora is not None:
        plain, drawn = build_model(params.model, inputs.labels, inputs.tokenizer)
        adapted: Any = adapt(plain, state.params, drawn)
        adapted.load_state_dict(weights)
        model = adapted.merge_and_unload()
        weights = model.state_dict()

    # whoever loads the published weights has neither the hook nor the divided embeddings
    if state.target_scale is not None:
        state.target_scale.fold(weights)
    fold_embeddings(model, weights)
    return TrainingResult(state, model, weights, logits)


SHOWN_LABELS = 6
"""Labels of the first micro-batch that are shown."""


def print_startup_summary(state: TrainState) -> None:
    """Print device, trainable parameters, the first micro-batch (inputs, labels, logits) and its loss.

    A wrong device, a frozen body, swapped labels or a broken head is visible before the first step.
    """
    state.logger.info(describe_devices(state.accelerator))
    _print_trained_parameters(state)
    if state.first_token_only:
        state.logger.info("the last layer computes only the first token, the one that the classifier reads")
    scale = state.target_scale
    if scale is not None:
        state.logger.info(
            f"the new head learns standardised targets: mean {scale.mean:.4g}, standard deviation"
            f" {scale.deviation:.4g}"
        )
    _print_first_micro_batch(state)


def _print_trained_parameters(state: TrainState) -> None:
    """Print how many parameters are trained, and how many of the token embeddings."""
    total = trainable = 0
    for parameter in state.model.parameters():
        if parameter.is_floating_point():  # the row numbers of ``UsedEmbeddings`` are no weights
            total += parameter.numel()
            if parameter.requires_grad:
                trainable += parameter.numel()
    state.logger.info(f"{trainable:,} of {total:,} parameters are trainable")

    divided = used_embeddings(state.model)
    if divided is not None:
        _, embeddings = divided
        used = len(embeddings.weight) - 1  # the last row stands for all other tokens
        vocabulary = embeddings.rows.shape[1]
        state.logger.info(
            f"of the token embeddings, it trains {used:,} of {vocabulary:,}:"
            " the train split has no other tokens"
        )


def _print_first_micro_batch(state: TrainState) -> None:
    """Print inputs, labels and logits of the first micro-batch, and the initial loss over all processes."""
    accelerator = state.accelerator
    loader = state.train_loader

    # forward
    batch = state.sampler.epoch(0)[0]
    rows = shard_batch(
        batch,
        state.rows_at_once(batch),
        accelerator.num_processes,
        accelerator.process_index,
        loader.windows(batch),
    )[0]
    inputs = loader.inputs(rows)
    labels = loader.labels(rows)
    state.model.eval()  # without dropout
    with torch.no_grad():
        logits = loader.answers(state.model(**inputs).logits, rows)
    state.model.train()

    shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in inputs.items())
    state.logger.info(f"first micro-batch: {shapes}")
    state.logger.info(f"its labels {describe_labels(labels, loader.split.task)}")
    state.logger.info(f"its logits {tuple(logits.shape)} {_dtype(logits)}")

    # loss
    losses = state.loss.per_example(logits, labels)
    weight = state.loss.total_weight(loader.split.labels[rows])
    sums = torch.tensor([float(losses.sum()), weight], device=accelerator.device)
    total_loss, total_weight = accelerator.reduce(sums, "sum").tolist()
    _print_initial_loss(state, total_loss / total_weight)


def describe_labels(labels: Tensor, schema: Task) -> str:
    """Return shape, type and first values of labels, with class names."""
    values = [logged_label(schema, label) for label in labels[:SHOWN_LABELS].tolist()]
    if len(labels) > SHOWN_LABELS:
        values.append("...")
    return f"{tuple(labels.shape)} {_dtype(labels)}: {', '.join(values)}"


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _print_initial_loss(state: TrainState, loss: float) -> None:
    """Print the initial loss next to the loss of a uniform prediction, and warn if it is far higher."""
    if not math.isfinite(loss):
        raise DataError(
            f"The loss before the first step is {loss}.",
            "Look for NaN in the weights of model.checkpoint and in the labels.",
        )
    logits = uniform_logits(state.loss.task)
    if logits is None:
        state.logger.info(f"initial loss {loss:.4f}")
        return

    # which label does not matter: all have the same probability
    label = example_labels(state.loss.task, 1)
    uniform_loss = float(state.loss.per_example(torch.from_numpy(logits), torch.from_numpy(label)))
    uniform = uniform_loss / state.loss.total_weight(label)
    state.logger.info(f"initial loss {loss:.4f}; a uniform prediction gives {uniform:.4f}")
    if loss > 1.5 * uniform + 0.5:
        state.logger.info(
            "WARNING: the initial loss is far higher than that of a uniform prediction. Check the head, the"
            " label order and the checkpoint."
        )
