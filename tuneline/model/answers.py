"""One answer for a document, from the logits of its windows: the only place that knows how.

A document that fits into the model is one window, whose logits are its answer.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuneline.model.long_text import Answer

if TYPE_CHECKING:
    from torch import Tensor


def document_values(
    values: NDArray[np.float32], windows: NDArray[np.int64], answer: Answer | None
) -> NDArray[np.float32]:
    """Return the answers of documents, float32 ``(documents, outputs)``.

    Args:
        values: Logits or features of the windows, one document after the other; ``(windows, outputs)``.
        windows: Number of windows of each document, at least 1; ``(documents,)``.
        answer: Mean, or maximum of each output; ``None``: each document is one window.
    """
    if answer is None:
        return values
    starts = np.cumsum(windows) - windows
    result: NDArray[np.float32]
    if answer == "max":
        result = np.maximum.reduceat(values, starts, axis=0)
    else:
        result = np.add.reduceat(values, starts, axis=0)
        result /= windows[:, np.newaxis]
    return result


def document_tensor(values: "Tensor", windows: NDArray[np.int64], answer: Answer | None) -> "Tensor":
    """Return the same as ``document_values``, with gradients to all windows."""
    import torch

    if answer is None or not len(windows):
        return values
    answers = []
    for document in values.split(windows.tolist()):  # type: ignore[no-untyped-call]
        part: Any = document
        answers.append(part.amax(dim=0) if answer == "max" else part.mean(dim=0))
    return torch.stack(answers)
