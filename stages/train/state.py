"""Training state: set up from the parameters, resumed from a checkpoint, and turned into the trained model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from torch import Tensor, nn
from torch.optim import Optimizer
from transformers import PreTrainedModel

from stages.train.checkpoints import Checkpoints, run_identity, run_key
from stages.train.data import BatchLoader, Inputs, LengthBucketedSampler, check_fit, data_files
from stages.train.devices import compile_in_place, configure_plugins, launch_settings
from stages.train.evaluation import ValidationMetric
from stages.train.interruption import Coordinator, Interruption
from stages.train.lora import merge_adapters
from stages.train.model import adapt, build_model, compute_first_token_only
from stages.train.optimization import Loss, build_loss, build_optimizer, build_schedule, total_steps
from stages.train.progress import Progress
from stages.train.target_scale import TargetScale
from stages.train.training_logger import TrainingLogger
from tuneline.files import write_json
from tuneline.params import Params, RunParams, TrainParams
from tuneline.paths import CHECKPOINTS


@dataclass
class TrainState:
    """Objects of a run.

    Attributes:
        params: Section ``train``.
        run: Section ``run``.
        micro_batch_size: Current size; it may be smaller than the parameter after running out of memory.
        evaluation_batch_size: The same for evaluations.
        model: Model prepared by the accelerator, like ``optimizer`` and ``schedule``.
        total_steps: Optimizer steps of the whole run.
        first_token_only: True if the last layer computes only the token that the classifier reads.
        target_scale: Scale of the targets of a regression with a newly drawn head.
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
    checkpoints: Checkpoints
    coordinator: Coordinator
    logger: TrainingLogger
    progress: Progress = field(default_factory=Progress)

    def is_finished(self) -> bool:
        """Return True if no training step is left."""
        return self.progress.step >= self.total_steps or self.progress.stopped_early


@dataclass(frozen=True)
class TrainingResult:
    """Result of a run.

    Attributes:
        state: Final state, with the curves.
        model: Plain model, without adapters or sharding; its configuration is used.
        weights: Trained weights by name; empty in processes other than the main one.
    """

    state: TrainState
    model: PreTrainedModel
    weights: dict[str, Tensor]


def set_up(params: Params, inputs: Inputs, accelerator: Accelerator, interruption: Interruption, micro_batch_size: int) -> TrainState:
    """Build the state of a run before its first step.

    Raises:
        ParamsError: The parameters do not fit the model, the data or the device.
    """
    settings = params.train
    loss = build_loss(settings, inputs.train)
    metric = ValidationMetric.load(settings, inputs.labels)
    model, first_token_only, target_scale = _set_up_model(params, inputs)
    sampler = LengthBucketedSampler(inputs.train.lengths, settings.global_batch_size, settings.bucket_window, params.seed)
    steps = total_steps(settings, sampler.batches_per_epoch)
    optimizer = build_optimizer(model, settings, accelerator.device)
    schedule = build_schedule(optimizer, settings, steps)
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
        train_loader=BatchLoader(inputs.train, inputs.pad_token_id, accelerator.device),
        validation_loader=BatchLoader(inputs.validation, inputs.pad_token_id, accelerator.device),
        total_steps=steps,
        first_token_only=first_token_only,
        target_scale=target_scale,
        checkpoints=_open_checkpoints(params, accelerator, micro_batch_size, _function_files(loss, metric)),
        coordinator=Coordinator(accelerator, interruption, params.run.checkpoint_every_minutes),
        logger=TrainingLogger(accelerator, inputs.train.lengths, micro_batch_size, metric.name),
    )


def _set_up_model(params: Params, inputs: Inputs) -> tuple[nn.Module, bool, TargetScale | None]:
    """Return the model to train, whether its last layer computes only the first token, and the scale of its targets."""
    torch.manual_seed(params.seed)
    model, drawn = build_model(params.model, inputs.labels, inputs.tokenizer)
    check_fit(inputs, model.config)
    first_token_only = params.train.first_token_only and compute_first_token_only(model)
    target_scale = TargetScale.apply(model, drawn, inputs.train.labels) if inputs.labels.is_regression else None
    return adapt(model, params.train, drawn), first_token_only, target_scale


def _function_files(loss: Loss, metric: ValidationMetric) -> list[Path]:
    """Return the files of the user that determine the model."""
    functions = [loss.function, metric.custom.function if metric.custom else None]
    return sorted({file for function in functions if function is not None for file in function.files})


def _open_checkpoints(params: Params, accelerator: Accelerator, micro_batch_size: int, functions: Sequence[Path]) -> Checkpoints:
    """Open the run's checkpoint folder; its ``run.json`` holds the identity of the run."""
    key = [""]
    if accelerator.is_main_process:
        identity = run_identity(params, accelerator, data_files(), functions)
        identity |= {"micro_batch_size": micro_batch_size, "launch": launch_settings()}
        key = [run_key(identity)]
        write_json(CHECKPOINTS / key[0] / "run.json", identity)
    broadcast_object_list(key)
    return Checkpoints(accelerator, CHECKPOINTS / key[0], params.run.keep_checkpoints)


def resume(state: TrainState) -> None:
    """Load the newest complete checkpoint, if there is one."""
    newest = state.checkpoints.newest(needs_best=state.params.keep == "best")
    threads = torch.get_num_threads()
    if newest is not None:
        state.progress = state.checkpoints.load(newest)
        state.logger.info(f"resumes from step {state.progress.step} of {state.total_steps} ({newest})")
        if state.progress.threads != threads and state.accelerator.device.type == "cpu":
            state.logger.info(
                f"WARNING: the checkpoint was computed with {state.progress.threads} threads and this run has {threads}, so the model will "
                f"differ in rounding from that of an uninterrupted run. OMP_NUM_THREADS={state.progress.threads} gives the same."
            )
    state.progress.threads = threads


def training_result(state: TrainState, params: Params, inputs: Inputs) -> TrainingResult:
    """Return the weights that ``train.keep`` selects, and a plain model for them."""
    if state.params.keep == "best" and state.progress.best_step != state.progress.step:
        state.checkpoints.load(state.checkpoints.path(state.progress.best_step))
    weights = state.accelerator.get_state_dict(state.model)
    model = state.accelerator.unwrap_model(state.model)
    if not state.accelerator.is_main_process:
        return TrainingResult(state, model, {})
    if state.params.lora is not None:
        plain, drawn = build_model(params.model, inputs.labels, inputs.tokenizer)
        adapted = adapt(plain, state.params, drawn)
        adapted.load_state_dict(weights)
        model = merge_adapters(adapted)
        weights = model.state_dict()
    if state.target_scale is not None:
        state.target_scale.fold(weights)
    return TrainingResult(state, model, weights)
