"""The stage ``download``: fetch the data and write the raw splits."""
