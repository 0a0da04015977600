"""Your Python: losses, metrics, data checks and slices that params.yaml names (docs/custom-loss.md)."""
