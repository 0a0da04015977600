"""Rows with sets of labels, for tests."""

import numpy as np


def random_rows(rows=300, seed=0):
    """Return labels, and logits that have something to do with them."""
    random = np.random.default_rng(seed)
    labels = (random.random((rows, 3)) < [0.1, 0.3, 0.6]).astype(np.int8)
    logits = (random.normal(size=(rows, 3)) + 2 * labels - 1.5).astype(np.float32)
    return labels, logits
