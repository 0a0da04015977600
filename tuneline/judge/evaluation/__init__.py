"""The evaluation of predictions on labelled rows: metrics, simple models beside them, slices."""
