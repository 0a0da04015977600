"""The stages of the pipeline. Each is a package that runs as ``python -m stages.NAME`` and shares only files with the others (dvc.yaml)."""
