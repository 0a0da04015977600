"""What every stage does at its door: quiet telemetry, errors that a person can read, and a note of what the run cost."""

import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from tuneline.errors import StageError
from tuneline.files import write_json
from tuneline.paths import TIMING

# Set before the libraries are imported: they read these at import.
QUIET = {
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "true",
}
for _name, _value in QUIET.items():
    os.environ.setdefault(_name, _value)

Figures = Mapping[str, float]


def run_stage(name: str, main: Callable[[], Figures | None]) -> NoReturn:
    """Runs a stage's ``main`` and leaves the process: 0 when it worked, 1 after a clear error, 130 when interrupted.

    Args:
        name: The stage's name; its timing goes to ``reports/timing/NAME.json``.
        main: Does the stage's work. What it returns (rows per second, say) joins the timing.
    """
    started = time.perf_counter()
    try:
        figures = main()
    except StageError as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print(f"{name}: interrupted; nothing half-written was left. `dvc repro` goes on from here.", file=sys.stderr)
        sys.exit(130)
    if int(os.environ.get("RANK", "0")) == 0:  # a stage of several processes notes its cost once
        write_timing(name, time.perf_counter() - started, figures or {})
    sys.exit(0)


def write_timing(name: str, seconds: float, figures: Figures) -> None:
    """Notes what a run cost. Not a DVC out: the same inputs give other figures each time."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts kilobytes
    timing = {"seconds": round(seconds, 2), "peak_memory_mb": round(peak, 1), **figures}
    write_json(TIMING / f"{name}.json", timing)
    print(f"{name}: " + ", ".join(f"{key} {value:,.6g}" for key, value in timing.items()))


def require(path: Path, made_by: str) -> Path:
    """Returns ``path`` when it exists.

    Raises:
        StageError: It does not; the message names the stage that makes it.
    """
    if not path.exists():
        raise StageError(f"{path} is missing.", f"The stage {made_by!r} makes it: run `dvc repro {made_by}`.")
    return path
