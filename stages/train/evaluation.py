"""Evaluation of a whole split: its logits, computed by any number of processes, every example once and in file order; its metric."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import nn

from stages.train.data import BatchLoader, Rows, shard_batch
from stages.train.interruption import Coordinator
from tuneline.batches import length_sorted_batches
from tuneline.custom_metrics import CustomMetric, load_metric
from tuneline.files.schemas import LabelSchema
from tuneline.metrics import METRIC_TABLE
from tuneline.params import TrainParams
from tuneline.params.functions import FunctionName
from tuneline.scores import metrics_of

Logits = NDArray[np.float32]
"""Shape ``(examples, outputs)``."""


@dataclass(frozen=True)
class ValidationMetric:
    """The metric that selects the best weights: ``train.metric``.

    Attributes:
        name: Name in the metric table, or of the user's function.
        greater_is_better: False for a loss or a cost.
        custom: The user's function; ``None`` for a metric of the table.
    """

    name: str
    greater_is_better: bool
    custom: CustomMetric | None = None

    @classmethod
    def load(cls, params: TrainParams, labels: LabelSchema) -> Self:
        """Look the metric up in the table, or import it.

        Raises:
            ParamsError: The user's function cannot be imported or called, or does not return one finite number.
        """
        if not FunctionName.matches(params.metric):
            return cls(params.metric, METRIC_TABLE[params.metric].greater_is_better)
        custom = load_metric("train.metric", FunctionName.parse("train.metric", params.metric), labels)
        return cls(custom.name, custom.greater_is_better, custom)

    def scores(self, logits: Logits, labels: NDArray[Any], label_schema: LabelSchema) -> Mapping[str, float]:
        """Return the metrics of a split by name: those of its task, the loss, and this one."""
        metrics = metrics_of(logits, labels, label_schema)
        return metrics if self.custom is None else {**metrics, self.name: self.custom.compute(logits, labels)}


def predict(accelerator: Accelerator, model: nn.Module, loader: BatchLoader, batch_size: int, coordinator: Coordinator) -> Logits:
    """Run the model over a split, in batches of similar length.

    Args:
        accelerator: Accelerator of the run.
        model: Prepared model. It is in training mode afterwards.
        loader: Loader of the split.
        batch_size: Examples in one forward pass of one process.
        coordinator: Checked for an interruption before each batch.

    Returns:
        Logits of shape ``(rows, outputs)``, the same in every process.

    Raises:
        AssertionError: An example was predicted twice or not at all.
        TrainingInterrupted: A signal arrived.
    """
    shards = shard_split(loader.split.lengths, batch_size, accelerator.num_processes)
    shard = shards[accelerator.process_index]
    model.eval()
    with torch.no_grad():  # not inference_mode: FSDP's parameters are views that autograd tracks later
        logits = [_batch_logits(model, loader, rows, coordinator) for rows in shard]
    model.train()
    largest = max(sum(len(rows) for rows in shard) for shard in shards)
    rows, values = _gather(accelerator, np.concatenate(shard), torch.cat(logits), largest)
    return restore_file_order(rows, values, len(loader.split))


def shard_split(lengths: NDArray[np.int64], batch_size: int, processes: int) -> list[list[Rows]]:
    """Return the batches of each process; all processes get the same number.

    Args:
        lengths: Tokens of each row, shape ``(rows,)``.
        batch_size: Maximum number of examples in one forward pass.
        processes: Number of processes.
    """
    shards: list[list[Rows]] = [[] for _ in range(processes)]
    for rows in length_sorted_batches(lengths, batch_size * processes):
        for process in range(processes):
            shards[process] += shard_batch(rows, batch_size, processes, process)
    return shards


def restore_file_order(rows: Rows, values: Logits, count: int) -> Logits:
    """Sort predictions by row.

    Args:
        rows: Row of each prediction, shape ``(count,)``.
        values: Predictions, shape ``(count, outputs)``.
        count: Number of rows of the split.

    Raises:
        AssertionError: ``rows`` does not contain each of ``0 .. count - 1`` exactly once.
    """
    if not np.array_equal(np.sort(rows), np.arange(count)):
        raise AssertionError(f"evaluation predicted {len(np.unique(rows))} examples in {len(rows)} results; the split has {count}")
    result = np.empty_like(values)
    result[rows] = values
    return result


def _batch_logits(model: nn.Module, loader: BatchLoader, rows: Rows, coordinator: Coordinator) -> torch.Tensor:
    coordinator.check_interruption()
    logits: torch.Tensor = model(**loader.inputs(rows)).logits
    return logits.float()[: len(rows)]


def _gather(accelerator: Accelerator, rows: Rows, logits: torch.Tensor, largest: int) -> tuple[Rows, Logits]:
    """Return the rows and logits of all processes.

    ``gather`` needs equal shapes, so each process pads its results to ``largest`` rows with row index -1, dropped afterwards.
    """
    if accelerator.num_processes == 1:
        return rows, logits.cpu().numpy()
    missing = largest - len(rows)
    padded_rows = torch.nn.functional.pad(torch.from_numpy(rows), (0, missing), value=-1).to(accelerator.device)
    all_rows = accelerator.gather(padded_rows).cpu().numpy()
    values = accelerator.gather(torch.nn.functional.pad(logits, (0, 0, 0, missing))).cpu().numpy()
    return all_rows[all_rows >= 0], values[all_rows >= 0]
