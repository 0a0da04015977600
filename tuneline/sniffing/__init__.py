"""Detection of how a user's file is written, where nobody told it.

It reads through ``tuneline.readers``, and is a package of its own because stages read only what
``params.yaml`` describes: no stage depends on it.
"""
