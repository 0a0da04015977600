"""One run of the pipeline: its checkout, the programs it starts, locks, and the commit that keeps its result."""
