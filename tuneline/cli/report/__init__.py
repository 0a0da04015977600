"""``tuneline report``: a page with the metrics of the model, their intervals, its errors and its provenance."""
