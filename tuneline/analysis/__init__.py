"""Texts, labels and predictions as numbers: similarity, splits, corrections, drift, simple models."""
