"""Pages, plots, and the results of data checks."""
