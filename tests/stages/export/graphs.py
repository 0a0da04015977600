"""Batches for exported graphs, and their logits in torch and in ONNX Runtime."""

import numpy as np
import torch

from stages.export.graph import REAL_TOKENS


def batch_of(rows, tokens, padding):
    """Return random ids; every row but the first ends in padding."""
    generator = np.random.default_rng(rows * tokens)
    ids = generator.integers(5, 120, (rows, tokens))
    mask = np.ones_like(ids)
    for row in range(1, rows):
        mask[row, tokens - row :] = 0
    ids[mask == 0] = padding
    segments = (np.arange(tokens) > tokens // 2).astype(np.int64) * mask
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}


def torch_logits(model, batch, columns):
    with torch.inference_mode():
        return model(**{name: torch.from_numpy(batch[name]) for name in columns}).logits.numpy()


def rewritings_of(exported):
    """Return the names of the rewritings that were applied to a graph."""
    names = {name for node in exported.graph.node for name in node.output}
    applied = {"first token": any("_first_" in name for name in names), "padding": REAL_TOKENS in names}
    return {rewriting for rewriting, is_applied in applied.items() if is_applied}


def logits_of(session, batch):
    return session.run(["logits"], {value.name: batch[value.name] for value in session.get_inputs()})[0]
