"""What ``compare`` writes about a model, for tests of those that read it."""

FIGURES = {
    "max_abs_diff": 0.1,
    "agreement": 0.9,
    "flips": 2,
    "accuracy": 0.8,
    "accuracy_drop": 0.1,
}
"""The figures of one exported model."""
