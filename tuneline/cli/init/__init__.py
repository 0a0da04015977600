"""``tuneline init``: sets up a project from the user's own files. Reads them first, shows a plan, and writes only after that."""
