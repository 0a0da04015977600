"""What a model of torch computes of tokenized rows."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tuneline.model.batches import TokenizedRows, compute_by_length

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def compute_outputs(
    model: "Callable[[dict[str, Tensor]], Tensor]",
    rows: TokenizedRows,
    out: NDArray[np.float32],
    *,
    pad_token_id: int,
    device: "torch.device",
    batch_size: int,
    title: str | None = None,
) -> NDArray[np.float32]:
    """Compute the outputs of rows without gradients, with rows of similar length in one batch.

    Args:
        model: Returns the outputs of a batch, of shape ``(batch, outputs)``, from its inputs by name, int64
            of shape ``(batch, tokens)`` on the device.
        rows: The rows. A row in several windows gets one answer from the outputs of its windows.
        out: Array for the outputs, float32 ``(rows, outputs)``; it may be mapped to a file.
        pad_token_id: Value of ``input_ids`` where a row has no token.
        device: Device of the model.
        batch_size: Rows of a batch at most, or windows of its rows.
        title: Title of a progress bar; ``None`` for no bar.

    Returns:
        ``out``, with the outputs in the order of the rows.
    """
    import torch

    def compute(batch: NDArray[np.int64]) -> NDArray[np.float32]:
        inputs = {}
        for name, padded in rows.pad(batch, pad_token_id).items():
            inputs[name] = torch.from_numpy(padded).to(device)
        values: NDArray[np.float32] = model(inputs).float().cpu().numpy()
        return rows.answers(values, batch)

    with torch.inference_mode():
        return compute_by_length(compute, rows.lengths, batch_size, out, title, windows=rows.window_counts)
