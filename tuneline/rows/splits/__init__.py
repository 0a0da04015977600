"""From a source of rows to the raw splits: files, hub or sample, corrections, division."""
