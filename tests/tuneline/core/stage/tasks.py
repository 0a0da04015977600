"""Functions that the tests of the engines run as tasks: in files, because workers are other processes."""

import os
import signal
import time
from pathlib import Path

from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.files import replace_file


def write_square(number):
    """Write a file, and return what the file does not say."""
    time.sleep(0.05 * (4 - number % 5))  # later tasks of five end earlier
    with replace_file(Path(f"{number}.txt")) as partial:
        partial.write_text(str(number**2))
    return number, os.environ.get("RAYON_NUM_THREADS")


def kill_first_worker(number):
    """Kill the worker that is the first to come to task 3, in the middle of its file."""
    if number == 3 and not Path("killed").exists():
        with replace_file(Path("3.txt")) as partial:
            partial.write_text("half of it")
            Path("killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return write_square(number)


def fail(number):
    """Fail as a stage does on task 1, slowly, and as a bug does on task 2."""
    if number == 1:
        time.sleep(0.5)
        raise DataError(f"shard {number} is damaged", "Write it anew.")
    if number == 2:
        raise ZeroDivisionError("a bug")
    return number


def sleep(number):
    """Tell the process, and work for long."""
    Path(f"{number}.pid").write_text(str(os.getpid()))
    time.sleep(60)
