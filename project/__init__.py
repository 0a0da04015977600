"""Your Python: losses and metrics that params.yaml names (docs/custom-loss.md)."""
