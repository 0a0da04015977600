"""Promises about the answers of a model: which rows it may answer so that few answers are wrong."""

CERTAINTY = 0.95
"""Default probability with which a promise holds."""
