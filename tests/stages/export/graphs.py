"""Batches for exported graphs, and their logits in torch and in ONNX Runtime."""

import numpy as np
import torch

from tuneline.onnx.graph import REAL_TOKENS


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


def skips_padding(exported):
    """Return True if a graph computes nothing for padding."""
    return any(REAL_TOKENS in node.output for node in exported.graph.node)


def logits_of(session, batch):
    return session.run(["logits"], {value.name: batch[value.name] for value in session.get_inputs()})[0]
