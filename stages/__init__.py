"""The stages of the pipeline.

Each is one page, which runs as ``python -m stages.NAME`` and shares only files with the others (dvc.yaml).
"""

import contextlib
import gc
import os
from pathlib import Path

import tuneline as tuneline  # turns telemetry off, before a stage imports other libraries
from tuneline.core.runtime.terminal import explain_exceptions

explain_exceptions()

# Importing torch and transformers creates a million objects that stay. With Python's threshold of 700 new
# objects, searching them for garbage again and again takes a fifth of the time of an import.
gc.set_threshold(50_000, 20, 20)

# torch.compile runs the code in its cache. Its default is in the folder for temporary files, where another
# user may have made it.
with contextlib.suppress(RuntimeError):  # this user has no home folder
    _cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(_cache / "torch/inductor"))
