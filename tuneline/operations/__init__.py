"""What runs the pipeline, and what comes of it: nights, experiments, promotion, new rows, alerts."""
