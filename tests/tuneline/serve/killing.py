"""Tasks that kill the worker that runs them: in a file, because workers are other processes."""

import os
import signal
from pathlib import Path

from tuneline.serve import batch

_predict_task = batch.predict_task


def kill_first_worker(task):
    """Kill the worker that is the first to come to the second file of the folder."""
    if "b.csv" in task.output.path.name and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return _predict_task(task)
