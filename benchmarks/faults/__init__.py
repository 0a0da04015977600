"""Faults that are planted in data, and what finds them (``benchmarks.faults``)."""
