"""Startup summary: what a run is about to train, printed before its first step."""

import math

import torch
from torch import Tensor

from stages.train.data import Rows, shard_batch
from stages.train.devices import describe_devices
from stages.train.state import TrainState
from tuneline.errors import DataError
from tuneline.files.schemas import LabelSchema

SHOWN_LABELS = 6
"""Labels of the first micro-batch that are shown."""


def print_startup_summary(state: TrainState) -> None:
    """Print device, trainable parameters, the first micro-batch (inputs, labels, logits), and the initial loss.

    A wrong device, a frozen body, swapped labels or a broken head is visible before the first step.

    Raises:
        DataError: The initial loss is NaN or infinite.
    """
    state.logger.info(describe_devices(state.accelerator))
    parameters = list(state.model.parameters())
    trainable = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    state.logger.info(f"{trainable:,} of {sum(parameter.numel() for parameter in parameters):,} parameters are trainable")
    if state.first_token_only:
        state.logger.info("the last layer computes only the first token, the one that the classifier reads")
    if scale := state.target_scale:
        state.logger.info(f"the new head learns standardised targets: mean {scale.mean:.4g}, standard deviation {scale.deviation:.4g}")
    rows = _first_micro_batch(state)
    inputs, labels = state.train_loader.inputs(rows), state.train_loader.labels(rows)
    logits = _logits_without_dropout(state, inputs)[: len(rows)]
    state.logger.info(f"first micro-batch: {', '.join(f'{name} {tuple(tensor.shape)}' for name, tensor in inputs.items())}")
    state.logger.info(f"its labels {describe_labels(labels, state.train_loader.split.label_schema)}")
    state.logger.info(f"its logits {tuple(logits.shape)} {_dtype(logits)}")
    _print_initial_loss(state, _mean_loss(state, rows, logits, labels))


def _first_micro_batch(state: TrainState) -> Rows:
    """Return the rows of this process's first micro-batch."""
    accelerator = state.accelerator
    return shard_batch(state.sampler.epoch(0)[0], state.micro_batch_size, accelerator.num_processes, accelerator.process_index)[0]


def _logits_without_dropout(state: TrainState, inputs: dict[str, Tensor]) -> Tensor:
    state.model.eval()
    with torch.no_grad():
        logits: Tensor = state.model(**inputs).logits
    state.model.train()
    return logits


def describe_labels(labels: Tensor, schema: LabelSchema) -> str:
    """Return shape, type and first values of labels, with class names."""
    first = labels[:SHOWN_LABELS].tolist()
    values = [f"{value} {schema.names[value]}" if schema.names else f"{value:g}" for value in first]
    more = ", ..." if len(labels) > SHOWN_LABELS else ""
    return f"{tuple(labels.shape)} {_dtype(labels)}: {', '.join(values)}{more}"


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _mean_loss(state: TrainState, rows: Rows, logits: Tensor, labels: Tensor) -> float:
    """Return the weighted mean loss of all processes' rows."""
    losses = state.loss.per_example(logits, labels)
    weight = state.loss.total_weight(state.train_loader.split.labels[rows])
    sums = torch.tensor([float(losses.sum()), weight], device=state.accelerator.device)
    total, weight = state.accelerator.reduce(sums, "sum").tolist()
    return float(total / weight)


def _print_initial_loss(state: TrainState, loss: float) -> None:
    """Print the initial loss next to that of a uniform prediction, and warn if it is far higher."""
    if not math.isfinite(loss):
        raise DataError(
            f"The loss before the first step is {loss}.",
            "Look for NaN in the weights of model.checkpoint and in the labels.",
        )
    if state.loss.regression:
        state.logger.info(f"initial loss {loss:.4f}")
        return
    classes = state.train_loader.split.label_schema.outputs
    label = torch.zeros(1, dtype=torch.int64)
    uniform = float(state.loss.per_example(torch.zeros(1, classes), label)) / state.loss.total_weight(label.numpy())
    state.logger.info(f"initial loss {loss:.4f}; a uniform prediction gives {uniform:.4f}")
    if loss > 1.5 * uniform + 0.5:
        message = "the initial loss is far higher than that of a uniform prediction. Check the head, the label order and the checkpoint."
        state.logger.info(f"WARNING: {message}")
