"""The stage ``validate``: check the data before training, and stop the pipeline if it must not be trained on."""
