"""Servers of one exported model, measured beside each other; see ``benchmarks.service.__main__``."""
