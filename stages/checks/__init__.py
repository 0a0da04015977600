"""Data checks: scalar columns derived from the splits, Great Expectations suites that judge them, and the report that says why."""
