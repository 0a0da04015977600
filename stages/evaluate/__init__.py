"""The stage ``evaluate``: evaluates the trained classifier on the reported split."""
