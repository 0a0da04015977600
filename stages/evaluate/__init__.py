"""The stage ``evaluate``: evaluate the trained classifier on the reported split."""
