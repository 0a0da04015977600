"""One run of the pipeline: its checkout, its programs, locks, and the commit that keeps its result."""
