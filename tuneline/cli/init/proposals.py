"""The proposal for model and training: a checkpoint or a new model, its recipe, and what the training will cost here."""

import math
from typing import Any

from rich.text import Text

from tuneline.cli.console import Console
from tuneline.cli.init import choosing
from tuneline.cli.init.checkpoints import Checkpoint, measure_lengths, open_checkpoint
from tuneline.cli.init.planning import Plan
from tuneline.cli.init.recipe import Recipe, fine_tuning, from_scratch, train_rows
from tuneline.cli.init.trial import Result, Spec, batch_lengths, is_busy, run_trial
from tuneline.params import Params

CPU = "cpu"
"""The launch configuration that stays on the CPU."""
FORWARD = 1 / 3
"""Part of the time of a forward and backward pass that the forward pass takes."""


def is_current(plan: Plan, params: Params) -> bool:
    """Return True if ``params.yaml`` is for this data already."""
    data, decision = params.data, plan.decision
    current = (data.source, data.path, tuple(data.text_columns), data.label_column, data.task)
    return current == ("files", plan.placement.data_path, decision.text_columns, decision.label_column, decision.task)


def choose_checkpoint(plan: Plan, params: Params) -> Checkpoint | None:
    """Ask for a checkpoint and open it; ``None`` for training from scratch.

    Raises:
        StageError: It cannot be fine-tuned here.
    """
    current = params.model.checkpoint
    suggestion = choosing.suggested(plan.sample, plan.columns, plan.decision.text_columns)
    name = choosing.ask(current, suggestion)
    if name is None:
        return None
    with Console().status("Reading its configuration and tokenizer ..."):
        return open_checkpoint(name, params.model.revision if name == current else None)


def propose(plan: Plan, params: Params, checkpoint: Checkpoint | None, trial: bool) -> dict[str, Any]:
    """Print and return the proposed parameters by dotted key.

    Args:
        plan: The plan.
        params: The current parameters.
        checkpoint: The checkpoint; ``None`` keeps the model of parameters that are for this data already, else it is trained from scratch.
        trial: Train a few steps.
    """
    console = Console()
    console.print(Text("\nModel and training"))
    if checkpoint is not None:
        lengths = measure_lengths(checkpoint, plan.sample, plan.columns, plan.decision.text_columns)
        recipe = fine_tuning(checkpoint, lengths, plan, params)
    elif is_current(plan, params):
        console.print(Text("  as in params.yaml, which is for this data already; --checkpoint NAME makes a new proposal"))
        return {}
    else:
        suggestion = choosing.suggested(plan.sample, plan.columns, plan.decision.text_columns)
        console.print(Text(choosing.explain(train_rows(plan, params), suggestion)), soft_wrap=True)
        recipe = from_scratch(plan, params)
    for reason in recipe.reasons:
        console.print(Text(f"  {reason}"), soft_wrap=True)
    if checkpoint is not None and trial:
        with console.status("Trial: a few training steps with random weights, to measure the time ..."):
            line = try_recipe(recipe, checkpoint, plan, params)
        console.print(Text(f"  {line}"), soft_wrap=True)
    return dict(recipe.params)


def try_recipe(recipe: Recipe, checkpoint: Checkpoint, plan: Plan, params: Params) -> str:
    """Run a trial and return what the training will cost, or why that is not known."""
    spec = trial_spec(recipe, checkpoint, plan, params)
    result = run_trial(spec)
    if isinstance(result, str):
        return f"cost: not measured, because the trial failed: {result}"
    return cost(result, spec, recipe, plan, params)


def trial_spec(recipe: Recipe, checkpoint: Checkpoint, plan: Plan, params: Params) -> Spec:
    """Return what to try: the batches that training will make of the texts."""
    values = recipe.params
    batch, micro_batch = values["train.global_batch_size"], values["train.micro_batch_size"]
    tokens = [] if recipe.lengths is None else recipe.lengths.tokens.tolist()
    labels = 1 if plan.decision.task == "regression" else len(plan.classes["train"])
    lengths = batch_lengths(tokens, values["tokenize.max_length"], micro_batch)
    return Spec(checkpoint.config, labels, micro_batch, batch // micro_batch, lengths, params.train.launch == CPU)


def cost(result: Result, spec: Spec, recipe: Recipe, plan: Plan, params: Params) -> str:
    """Return the seconds of 1,000 steps and the time of the training, evaluations included."""
    values = recipe.params
    step, epochs = result.step_seconds(spec.micro_batches), values["train.epochs"]
    steps = epochs * math.ceil(train_rows(plan, params) / values["train.global_batch_size"])
    evaluations = 4 if values["train.evaluate_every_steps"] else epochs
    evaluation = plan.classes["validation"].total() / spec.micro_batch_size * result.micro_batch_seconds * FORWARD
    busy = "; less when no other programs use the processor" if is_busy() else ""
    return (
        f"cost on this machine ({result.device}): about {duration(1000 * step)} for 1,000 steps, "
        f"{duration(steps * step + evaluations * evaluation)} for the training{busy}"
    )


def duration(seconds: float) -> str:
    """Return a rounded time."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
