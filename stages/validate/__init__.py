"""The stage ``validate``: check the data before training, and stop the pipeline if they fail."""
