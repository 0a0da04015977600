"""Whether a rewritten graph says what its model says, on a few rows: a first look, long before the stage ``compare`` takes its own."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
from numpy.typing import NDArray

from stages.export.storage import save
from tuneline.batches import Batch
from tuneline.onnx.session import OnnxClassifier

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LENGTHS = (8, 5, 2)
TOLERANCE = 1e-4
"""Of logits, absolute and relative. Rounding stays far below, and whatever reads padding goes far beyond."""


def agrees(made: onnx.ModelProto, model: "PreTrainedModel", names: Sequence[str]) -> bool:
    """Whether logits of rows of several lengths are the model's own.

    Args:
        made: The graph.
        model: In evaluation mode, on the CPU.
        names: The model's inputs.
    """
    import torch

    batch = padded_rows(model)
    with torch.inference_mode():
        wanted = model(**{name: torch.from_numpy(batch[name]) for name in names}).logits.numpy()
    logits = answer(made, batch)
    return logits is not None and np.allclose(logits, wanted, atol=TOLERANCE, rtol=TOLERANCE)


def answer(made: onnx.ModelProto, batch: Batch) -> NDArray[np.float32] | None:
    """Logits by ONNX Runtime; ``None`` where it cannot run the graph."""
    with tempfile.TemporaryDirectory() as folder:
        save(made, path := Path(folder, "model.onnx"))
        try:
            return OnnxClassifier(path).logits(batch)
        except Exception:  # its errors have no common base of their own
            return None


def padded_rows(model: "PreTrainedModel") -> Batch:
    """Random rows, padded on the right."""
    mask = (np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]).astype(np.int64)
    padding = model.config.pad_token_id or 0
    ids = np.random.default_rng(0).integers(0, model.config.vocab_size, mask.shape)
    return {"input_ids": np.where(mask == 1, ids, padding), "attention_mask": mask, "token_type_ids": np.zeros_like(mask)}
