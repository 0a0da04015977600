"""What git and dvc.lock know of this checkout: versions of the model, their commits, their names in the registry."""
