"""The entry point that all stages share: readable errors, exit codes, time and memory."""

import gc
import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from tuneline.core.paths import TIMING
from tuneline.core.runtime.errors import StageError, explain_disk_errors
from tuneline.core.runtime.terminal import say
from tuneline.core.stage.code import require_engine
from tuneline.core.stage.records import Metrics, write_record

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")  # tokenizers reads it at import

Measurements = Mapping[str, float]


def run_stage(
    name: str,
    main: Callable[[], Measurements | None],
    write_provenance: Callable[[], None] | None = None,
) -> NoReturn:
    """Run a stage and exit the process: status 0, the status of a ``StageError``, or 130 after an interrupt.

    Args:
        name: Name of the stage. Its timing is written to ``reports/timing/NAME.json``.
        main: Does the stage's work. It may return measurements (such as rows per second), which are added to
            the timing.
        write_provenance: For a stage whose provenance is an out: writes it, after ``main``, in one process of
            a distributed stage.
    """
    started = time.perf_counter()
    try:
        with explain_disk_errors():
            require_engine(name)
            measurements = main()
            # One process of a distributed stage writes. Under mpirun, accelerate sets RANK in main.
            writes_records = int(os.environ.get("RANK", "0")) == 0
            if write_provenance is not None and writes_records:
                write_provenance()
            if writes_records:
                write_timing(name, time.perf_counter() - started, measurements or {})
    except StageError as error:
        report_error(name, error)
        sys.exit(error.stage_status)
    except KeyboardInterrupt:
        say(f"{name}: interrupted; no partial outputs are left. `dvc repro` resumes from here.", error=True)
        sys.exit(130)
    # Else Python searches all objects of torch and transformers for garbage while it exits: a second or two.
    gc.freeze()
    sys.exit(0)


def report_error(name: str, error: StageError) -> None:
    """Print an error.

    A process of ``torchrun`` leaves it in a file instead: all processes may have the same, and it is printed
    once.
    """
    message = f"{name}: {error}"
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if file:
        content = json.dumps({"stage": name, "message": message, "timestamp": int(time.time())})
        with suppress(OSError):  # its disk is full: print the message instead
            Path(file).write_text(content, encoding="utf-8")
            return
    say(message, error=True)


def write_timing(name: str, seconds: float, measurements: Measurements) -> None:
    """Write and print time and memory of a run.

    The file is not a DVC out, because it differs between runs on the same inputs.
    """
    timing = {"seconds": round(seconds, 2), "peak_memory_mb": round(peak_memory() / 1024, 1), **measurements}
    write_record(TIMING / f"{name}.json", Metrics.of(timing))
    values = ", ".join(f"{key} {value:,.6g}" for key, value in timing.items())
    say(f"{name}: {values}")


def peak_memory() -> int:
    """Return the largest resident memory of this process so far, in kB.

    ``getrusage`` is for kernels that do not tell it otherwise: it may return the memory of the process that
    started this one, such as DVC.
    """
    status = Path("/proc/self/status")
    if status.exists():
        match = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(encoding="utf-8"), re.MULTILINE)
        if match:
            return int(match[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def require(path: Path, made_by: str) -> Path:
    """Return ``path`` if it exists; else, a ``StageError`` names the stage that writes it."""
    if not path.exists():
        raise StageError(
            f"{path} is missing.", f"The stage {made_by!r} writes it: run `dvc repro {made_by}`."
        )
    return path
