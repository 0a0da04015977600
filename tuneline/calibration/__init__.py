"""Calibration: probabilities that are true as often as they say, by a temperature for the logits."""
