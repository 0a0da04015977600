"""The suites: which expectation of which column stands for which check, built from the parameters."""
