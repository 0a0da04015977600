"""Simple models that a trained one must beat: what the stage ``baseline`` fits, and ``tuneline evaluate`` too."""
