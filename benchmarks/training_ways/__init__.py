"""The ways of training that ``benchmarks.training`` compares."""
