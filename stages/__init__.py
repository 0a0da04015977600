"""The stages of the pipeline. Each is a package that runs as ``python -m stages.NAME`` and shares only files with the others (dvc.yaml)."""

import gc

import tuneline as tuneline  # turns telemetry off, before a stage imports other libraries

# Importing torch and transformers creates a million objects that stay. With Python's threshold of 700 new objects, searching them
# for garbage again and again takes a fifth of the time of an import.
gc.set_threshold(50_000, 20, 20)
