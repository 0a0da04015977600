"""The stage ``compare``: compare exported models with the trained one, and publish those within tolerance."""
