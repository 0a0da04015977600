"""The stage ``compare``: compares the exported models with the trained model, and publishes those within tolerance."""
