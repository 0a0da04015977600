"""Pages, plots, and the records that reports read."""
