"""Logits of a whole split, by any number of processes: every example once, in the order of the file."""

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import nn

from stages.train.control import Control
from stages.train.feeding import Feed
from stages.train.order import Rows, share
from tuneline.batches import length_sorted_batches

Logits = NDArray[np.float32]


def predict(accelerator: Accelerator, model: nn.Module, feed: Feed, batch_size: int, control: Control) -> Logits:
    """Runs the model over a split, in batches of like length.

    Args:
        accelerator: Of the run.
        model: As prepared by it. Left in training mode.
        feed: The split to predict.
        batch_size: Examples in one forward pass of one process.
        control: Asked before each batch whether to leave.

    Returns:
        Logits of shape ``[rows, outputs]``, the same in every process.

    Raises:
        AssertionError: An example was counted twice or not at all.
        InterruptedRun: A signal came.
    """
    shares = deal(feed.split.lengths, batch_size, accelerator.num_processes)
    own = shares[accelerator.process_index]
    model.eval()
    with torch.no_grad():  # not inference_mode: sharded parameters are views that autograd must know later
        logits = [_logits(model, feed, rows, control) for rows in own]
    model.train()
    most = max(sum(len(rows) for rows in one) for one in shares)
    rows, values = _gather(accelerator, np.concatenate(own), torch.cat(logits), most)
    return in_order(rows, values, len(feed.split))


def _logits(model: nn.Module, feed: Feed, rows: Rows, control: Control) -> torch.Tensor:
    control.check_interruption()
    logits: torch.Tensor = model(**feed.inputs(rows)).logits
    return logits.float()[: len(rows)]


def deal(lengths: NDArray[np.int64], batch_size: int, processes: int) -> list[list[Rows]]:
    """Shares the batches of a split out: one list for each process, all equally long."""
    shares: list[list[Rows]] = [[] for _ in range(processes)]
    for rows in length_sorted_batches(lengths, batch_size * processes):
        for process in range(processes):
            shares[process] += share(rows, batch_size, processes, process)
    return shares


def in_order(rows: Rows, values: Logits, count: int) -> Logits:
    """Puts results back into the order of the file.

    Raises:
        AssertionError: ``rows`` is not each of ``0 .. count - 1`` once.
    """
    if not np.array_equal(np.sort(rows), np.arange(count)):
        raise AssertionError(f"evaluation counted {len(np.unique(rows))} examples in {len(rows)} results; the split has {count}")
    result = np.empty_like(values)
    result[rows] = values
    return result


def _gather(accelerator: Accelerator, rows: Rows, logits: torch.Tensor, most: int) -> tuple[Rows, Logits]:
    """All processes' results. Each is filled up to ``most`` rows, because gathering wants equal shapes; the filling is dropped."""
    if accelerator.num_processes == 1:
        return rows, logits.cpu().numpy()
    missing = most - len(rows)
    padded = torch.nn.functional.pad(torch.from_numpy(rows), (0, missing), value=-1).to(accelerator.device)
    everywhere = accelerator.gather(padded).cpu().numpy()
    values = accelerator.gather(torch.nn.functional.pad(logits, (0, 0, 0, missing))).cpu().numpy()
    return everywhere[everywhere >= 0], values[everywhere >= 0]
