"""Linear models of vectors or words: features, fits, thresholds, and the classifier that ends in one."""
