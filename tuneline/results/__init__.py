"""What the results of a run say: the verdict, the page and the model card."""
