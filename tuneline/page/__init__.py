"""What the results of a run say: the verdict by rules, the page about a model and its card."""
