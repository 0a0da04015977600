"""Sweeps: many configurations, the best of which on validation is found with few optimizer steps."""
