"""The training of a run: one at a time on a machine or a GPU, across deployments, workers and clones; with shared checkpoints.

The locks are files of the machine that the operating system locks. The supervisor of each program of the run inherits them: the next
training starts when the last process of the one before has ended, however it ended.
"""

import contextlib
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from flows.runs.checkout import Checkout
from flows.runs.checkpoints import SharedCheckpoints
from tuneline.core.locks import BusyError, lock, unlock

STAGE = "train"
"""The stage that trains. From it on a run has the machine to itself: later stages measure speed."""
MACHINE_LOCKS = "TUNELINE_MACHINE_LOCKS"
"""Environment variable with the folder of the locks. It must be the same for all workers of a machine."""
LOOK_EVERY = 1.0
"""Seconds between two looks at a lock that another run holds."""


class MachineLockError(Exception):
    """The locks of this machine cannot be used.

    Args:
        error: What the operating system says.
    """

    def __init__(self, error: OSError) -> None:
        remedy = f"Set {MACHINE_LOCKS} to a folder on a local disk, the same for all workers of the machine."
        super().__init__(f"The locks of this machine in {_folder()} cannot be used ({error.strerror}). {remedy}")


class TrainingLock:
    """The right to train on this machine, or on some of its GPUs.

    Args:
        files: Open lock files, in the order in which every run locks them; True for one that runs share.
    """

    def __init__(self, files: Mapping[int, bool]) -> None:
        self._files = files

    @property
    def descriptors(self) -> tuple[int, ...]:
        """File descriptors of the locks, for processes that must end before the next training starts."""
        return tuple(self._files)

    def acquire(self, run: str, on_line: Callable[[str], None]) -> None:
        """Wait until no other run trains here. A signal whose handler raises ends the wait.

        Args:
            run: Name of this run, which those that wait for it print.
            on_line: Called with a line when the wait begins and when it ends.
        """
        waited_since = None
        for file, shared in self._files.items():
            while not _try_lock(file, shared=shared):
                if waited_since is None:
                    waited_since = time.monotonic()
                    holder = os.pread(file, 200, 0).decode(errors="replace") or "another run"
                    on_line(f"Waits for run {holder}, which trains on this machine.")
                time.sleep(LOOK_EVERY)
            os.ftruncate(file, 0)
            os.pwrite(file, run.encode(), 0)
        if waited_since is not None:
            on_line(f"Trains now, after {(time.monotonic() - waited_since) / 60:.0f} minutes of waiting.")

    def release(self) -> None:
        """Let the next run train. Without it, that happens when all processes of this run have ended."""
        for file in self._files:
            unlock(file)


@contextlib.contextmanager
def training_lock(one_per: str | None) -> Iterator[TrainingLock]:
    """Open the locks of this machine, without locking them.

    Args:
        one_per: ``machine``, ``gpu`` or ``None``, as in ``conf/flows.yaml``.

    Raises:
        MachineLockError: They cannot be opened.
    """
    gpus = sorted({re.sub(r"[^\w-]", "-", name.strip()) for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")} - {"", "-1"})
    if one_per is None:
        names = {}
    elif one_per == "machine" or not gpus:
        names = {"machine": False}
    else:  # trainings on single GPUs share the machine
        names = {"machine": True, **{f"gpu-{gpu}": False for gpu in gpus}}
    with contextlib.ExitStack() as opened:
        files = {}
        for name, shared in names.items():
            file = _open(_folder() / name)
            opened.callback(os.close, file)
            files[file] = shared
        yield TrainingLock(files)


def _folder() -> Path:
    """Return the folder of the locks. A home folder may be on several machines."""
    folder = os.environ.get(MACHINE_LOCKS)
    return Path(folder) if folder else Path.home() / ".cache" / "tuneline" / "locks" / socket.gethostname()


def _open(file: Path) -> int:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise MachineLockError(error) from None


def _try_lock(file: int, *, shared: bool) -> bool:
    try:
        lock(file, wait=0, shared=shared)
    except BusyError:
        return False
    except OSError as error:  # NFS without a lock service, for example
        raise MachineLockError(error) from None
    return True


@contextlib.contextmanager
def training(
    checkout: Checkout, machine: TrainingLock, checkpoints: SharedCheckpoints | None, on_line: Callable[[str], None]
) -> Iterator[None]:
    """Wait for the machine and fetch the checkpoints of an earlier attempt; copy those that are completed in the block."""
    machine.acquire(checkout.name, on_line)
    if checkpoints is None:
        yield
        return
    if fetched := checkpoints.fetch(checkout.path):
        on_line(f"Fetched checkpoint {fetched}; training resumes from it.")
    with checkpoints.copied(checkout.path):
        yield
