"""Sweeps: many configurations, of which the best on validation is found with few optimizer steps."""
