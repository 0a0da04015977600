"""The metrics and their intervals, the predictions they are computed from, and temperatures."""
