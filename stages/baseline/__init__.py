"""The stage ``baseline``: fit simple models and predict with them, for the comparison with the trained model."""
