"""A run of the line: a checkout of its own, the programs that run in it, locks, and what is kept of it."""
