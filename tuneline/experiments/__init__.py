"""Trainings with other parameters: in progress, finished, and compared."""
