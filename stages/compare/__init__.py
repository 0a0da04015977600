"""The stage ``compare``: compare the exported models with the trained model, and publish those within tolerance."""
