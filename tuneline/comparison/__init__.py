"""Comparison of two models on the rows that both predicted."""
