"""Simple models that a trained one must beat."""
