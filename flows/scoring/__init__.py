"""New files scored by the model in production, and whether they still look like its training data."""
