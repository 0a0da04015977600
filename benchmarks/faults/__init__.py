"""Faults that are planted in data, and who finds them: ``python -m benchmarks.faults``."""
