"""Statistics of texts, labels and predictions: similarity, splits, intervals, drift, leaks, baselines."""
