"""Linear models of vectors or words: their features, fits and thresholds."""
