"""The labels of the data: which of them are probably wrong."""
