"""Predictions for files of rows."""
