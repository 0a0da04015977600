"""Sweeps: what is drawn, the loop over rungs, and the best."""
