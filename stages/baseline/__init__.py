"""The stage ``baseline``: fit simple models, which the trained model must beat, and predict with them."""
