"""The stage ``compare``: holds the exported models against the trained one, and publishes those that pass."""
