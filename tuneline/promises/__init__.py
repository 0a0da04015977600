"""Promises about the answers of a model: which rows it may answer so that few answers are wrong."""
