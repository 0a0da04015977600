"""The stages of the line. Each runs alone, as ``python -m stages.NAME``, and meets the others only in files (see dvc.yaml)."""
