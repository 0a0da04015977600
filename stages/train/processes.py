"""The processes of a training that accelerate's launcher starts: wait for them, pass signals on, and return one exit code for all."""

import argparse
import contextlib
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stages.train.launch import CRASHED, INTERRUPTED, STOPPING
from tuneline.errors import StageError
from tuneline.terminal import say

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError


def run_launcher(launcher: Callable[[argparse.Namespace], None], args: argparse.Namespace) -> int:
    """Start processes with a function of accelerate, wait for them, and return one exit code for all of them."""
    from torch.distributed import DistError
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    stop_on_signals()
    hide_torchrun_log()
    try:
        launcher(args)
    except ChildFailedError as error:
        return exit_code(error)
    except subprocess.CalledProcessError as error:
        return 128 - error.returncode if error.returncode < 0 else error.returncode
    except SignalException as error:
        return 128 + error.sigval
    except (DistError, ConnectionError) as error:  # of the machines: those of the processes are theirs
        raise StageError(
            f"The machines did not find each other at {args.main_process_ip}:{args.main_process_port}: {str(error).splitlines()[0]}",
            "Start the training on all machines, with the same address of the main one, and a port that no other program uses there.",
        ) from None
    return 0


def stop_on_signals() -> None:
    """Let a thread handle the signals: Python's handlers do not run while a native function waits for the other machines."""
    received, written = os.pipe()
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written)
    for number in STOPPING:
        signal.signal(number, lambda *_: None)
    threading.Thread(target=_stop_when, args=(received,), name="stop on signals", daemon=True).start()


def _stop_when(received: int) -> None:
    while (number := os.read(received, 1)[0]) not in STOPPING:
        pass
    stop_processes(number)


def stop_processes(number: int) -> None:
    """Ask all processes of the training to save a checkpoint and end. torchrun starts them in sessions of their own, without Ctrl-C."""
    import psutil

    processes = psutil.Process().children(recursive=True)
    if not processes:
        os._exit(128 + number)
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()


def hide_torchrun_log() -> None:
    """Hide torchrun's messages about processes that ended: the last line of a run says it. ``LOGLEVEL`` shows them."""
    import torch.distributed.run

    if "LOGLEVEL" not in os.environ:
        for name in logging.getLogger().manager.loggerDict:
            if name.startswith(torch.distributed.__name__):
                logging.getLogger(name).setLevel(logging.CRITICAL)


def exit_code(error: "ChildFailedError") -> int:
    """Return one exit code for several processes, and print the error of one that ended with a ``StageError``."""
    failures: list[Any] = sorted(error.failures.values(), key=lambda failure: int(failure.timestamp))
    if any(failure.exitcode == INTERRUPTED for failure in failures):
        return INTERRUPTED
    for failure in failures:
        if failure.error_file_data.get("stage"):  # see tuneline.stage.report_error
            say(failure.message, error=True)
            return 1
    code = int(failures[0].exitcode)
    return 128 - code if code < 0 else CRASHED
