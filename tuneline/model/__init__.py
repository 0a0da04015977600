"""From texts to a classifier: kinds of task, tokens, checkpoints, and linear models on frozen vectors."""
