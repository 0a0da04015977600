"""The methods of training that ``benchmarks.training`` compares."""
