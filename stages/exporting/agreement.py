"""Whether a rewritten graph says what its model says, on a few rows: a first look, long before the stage ``compare`` takes its own."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx

from stages.batches import Batch
from stages.exporting.storage import save
from stages.serving.session import OnnxClassifier

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

    Returns:
        ``False`` as well where ONNX Runtime cannot run the graph.
    """
    import torch

    batch = {name: values for name, values in padded_rows(model).items() if name in names}
    with torch.inference_mode():
        wanted = model(**{name: torch.from_numpy(values) for name, values in batch.items()}).logits.numpy()
    with tempfile.TemporaryDirectory() as folder:
        save(made, path := Path(folder, "model.onnx"))
        try:
            logits = OnnxClassifier(path).logits(batch)
        except Exception:  # ONNX Runtime's errors have no common base of their own
            return False
    return np.allclose(logits, wanted, atol=TOLERANCE, rtol=TOLERANCE)


def padded_rows(model: "PreTrainedModel") -> Batch:
    """Random rows, padded on the right."""
    mask = (np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]).astype(np.int64)
    padding = model.config.pad_token_id or 0
    ids = np.random.default_rng(0).integers(0, model.config.vocab_size, mask.shape)
    return {"input_ids": np.where(mask == 1, ids, padding), "attention_mask": mask, "token_type_ids": np.zeros_like(mask)}
