"""The stage ``evaluate``: scores the trained classifier on the reported split."""
