"""The stage ``validate``: stops the line before anything is trained on bad data, and says why."""
