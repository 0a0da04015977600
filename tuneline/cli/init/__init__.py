"""``tuneline init``: a project from a person's own files. Looks first, shows what it found, and writes once."""
