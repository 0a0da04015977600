"""Predictions for the rows of a split: the files that stages write, and how they are read."""
