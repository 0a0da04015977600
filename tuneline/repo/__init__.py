"""Versions of the model in git and ``dvc.lock``: their commits, results and names in the registry."""
