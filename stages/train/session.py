"""One run from parameters to a trained model: builds, goes on from a checkpoint, trains, and hands over."""

from dataclasses import dataclass

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from torch import Tensor
from transformers import PreTrainedModel

from stages.train.adaptation import adapt, merged
from stages.train.checkpoints import Checkpoints
from stages.train.control import Control
from stages.train.devices import compile_in_place
from stages.train.feeding import Feed
from stages.train.first_token import keep_first_token
from stages.train.identity import facts_of, key_of
from stages.train.inputs import Inputs, check_fit, data_files
from stages.train.interruption import Interruption
from stages.train.locking import locked
from stages.train.loop import Run, fit
from stages.train.losses import Loss, class_weights
from stages.train.memory import halving
from stages.train.model import build_model
from stages.train.opening import report
from stages.train.optimizer import build_optimizer
from stages.train.order import Order
from stages.train.schedule import build_schedule, total_steps
from stages.train.sharding import tell_plugins
from stages.train.watching import Watch
from tuneline.files import write_json
from tuneline.params import Params
from tuneline.paths import CHECKPOINTS


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Attributes:
        run: With its curves.
        model: A plain model, for its configuration.
        weights: What it learned, on the main process.
    """

    run: Run
    model: PreTrainedModel
    weights: dict[str, Tensor]


def train(params: Params, inputs: Inputs, accelerator: Accelerator, interruption: Interruption) -> Outcome:
    """Trains to the end, from the newest checkpoint of this very run where there is one.

    Where memory does not suffice, the micro batch is halved and the run begins again; the global batch stays.

    Raises:
        InterruptedRun: A signal came; the state is saved.
        StageError: Something in parameters, data or devices stands in the way.
    """

    def attempt(micro_batch_size: int) -> Outcome:
        return _attempt(params, inputs, prepare(params, inputs, accelerator, interruption, micro_batch_size))

    return halving(attempt, params.train.micro_batch_size, accelerator)


def _attempt(params: Params, inputs: Inputs, run: Run) -> Outcome:
    with locked(run.accelerator):
        resume(run)
        if run.progress.step == 0:
            report(run)
        with run.watch.watching(run.progress, run.total_steps):
            fit(run)
        return _outcome(params, inputs, run)


def prepare(params: Params, inputs: Inputs, accelerator: Accelerator, interruption: Interruption, micro_batch_size: int) -> Run:
    """Builds everything a run works with, at its beginning."""
    settings = params.train
    torch.manual_seed(params.seed)
    plain = build_model(params.model, inputs.labels, inputs.tokenizer)
    check_fit(inputs, plain.config)
    first_token_only = settings.first_token_only and keep_first_token(plain)
    model = adapt(plain, settings)
    order = Order(inputs.train.lengths, settings.global_batch_size, settings.bucket_window, params.seed)
    steps = total_steps(settings, order.groups_per_epoch)
    optimizer = build_optimizer(model, settings, accelerator.device)
    schedule = build_schedule(optimizer, settings, steps)
    tell_plugins(accelerator, model, micro_batch_size, settings.max_grad_norm)
    if settings.compile is not None:
        compile_in_place(model, settings.compile)
    prepared, optimizer, schedule = accelerator.prepare(model, optimizer, schedule)
    prepared.train()
    return Run(
        accelerator=accelerator,
        params=settings,
        micro_batch_size=micro_batch_size,
        model=prepared,
        optimizer=optimizer,
        schedule=schedule,
        order=order,
        loss=Loss(inputs.labels.is_regression, settings.label_smoothing, class_weights(settings, inputs.train)),
        train=Feed(inputs.train, inputs.pad_token_id, accelerator.device),
        validation=Feed(inputs.validation, inputs.pad_token_id, accelerator.device),
        total_steps=steps,
        first_token_only=first_token_only,
        checkpoints=_checkpoints(params, accelerator, micro_batch_size),
        control=Control(accelerator, interruption, settings.checkpoint_every_minutes),
        watch=Watch(accelerator, inputs.train.lengths, micro_batch_size, settings.metric),
    )


def _checkpoints(params: Params, accelerator: Accelerator, micro_batch_size: int) -> Checkpoints:
    """The run's own folder, with a file in it that says what the run is."""
    key = [""]
    if accelerator.is_main_process:
        facts = {**facts_of(params, accelerator, data_files()), "micro_batch_size": micro_batch_size}
        key = [key_of(facts)]
        write_json(CHECKPOINTS / key[0] / "run.json", facts)
    broadcast_object_list(key)
    return Checkpoints(accelerator, CHECKPOINTS / key[0], params.train.keep_checkpoints)


def resume(run: Run) -> None:
    """Goes on from the newest checkpoint that is whole, if there is one."""
    newest = run.checkpoints.newest(best_wanted=run.params.keep == "best")
    if newest is not None:
        run.progress = run.checkpoints.load(newest)
        run.watch.say(f"goes on from {newest}: step {run.progress.step} of {run.total_steps}")


def _outcome(params: Params, inputs: Inputs, run: Run) -> Outcome:
    """The weights to keep, in the shape of a plain model."""
    if run.params.keep == "best" and run.progress.best_step != run.progress.step:
        run.accelerator.load_state(str(run.checkpoints.path(run.progress.best_step)))
    weights = run.accelerator.get_state_dict(run.model)
    model = run.accelerator.unwrap_model(run.model)
    if run.params.lora is not None and run.accelerator.is_main_process:
        adapted = adapt(build_model(params.model, inputs.labels, inputs.tokenizer), run.params)
        adapted.load_state_dict(weights)
        model = merged(adapted)
        weights = model.state_dict()
    return Outcome(run, model, weights or {})
