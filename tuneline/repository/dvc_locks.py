"""Which processes DVC's locks name, and whether they are still those processes.

DVC writes into ``.dvc/tmp/rwlock`` which process runs a stage with which paths. A process that is killed
stays in it, and DVC takes every process with its number for it. In containers, numbers are low, and another
process soon has the same one. DVC writes the file in place, so a kill can leave it empty or cut off; then no
command of DVC works that reads it.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

RWLOCK = Path(".dvc/tmp/rwlock")
"""The processes that run stages."""
DVC_LOCK = Path(".dvc/tmp/lock")
"""Is locked while DVC reads or writes its state; the system releases it when its holder ends."""


@dataclass(frozen=True)
class LockHolder:
    """A process that ``RWLOCK`` names.

    Attributes:
        pid: Its number.
        recorded: The command that DVC recorded.
        command: The command of the process that has this number now; ``None`` without one.
    """

    pid: int
    recorded: str
    command: Sequence[str] | None

    @property
    def is_running(self) -> bool:
        """True if the process that has this number now runs the recorded command."""
        if self.command is None:
            return False
        # without the program, which may be a script
        arguments = self.recorded.split()[1:]
        now = " ".join(self.command).split()
        return now[len(now) - len(arguments) :] == arguments

    @property
    def is_another(self) -> bool:
        """True if another process has this number now."""
        return self.command is not None and not self.is_running


def is_rwlock_damaged(root: Path) -> bool:
    """Return True if ``RWLOCK`` of a working tree is there, but was not written to its end."""
    try:
        json.loads((root / RWLOCK).read_bytes())
    except ValueError:
        return True
    except OSError:  # most often there is none
        return False
    return False


def stage_processes(root: Path) -> list[LockHolder]:
    """Return the processes that run stages in a working tree, as far as DVC knows, each once."""
    try:
        locks = json.loads((root / RWLOCK).read_bytes())
    except (OSError, ValueError):
        return []
    entries = list(locks.get("write", {}).values())  # a path has one writer and several readers
    for readers in locks.get("read", {}).values():
        entries += readers

    holders = {}
    for entry in entries:
        pid = int(entry["pid"])
        holders[pid] = LockHolder(pid, str(entry["cmd"]), _command(pid))
    return list(holders.values())


def processes_with(file: Path) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the number and command of each process that has a file open.

    Processes of other users, containers and machines are not seen.
    """
    import psutil

    file = file.resolve()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(Path(opened.path) == file for opened in process.open_files()):
                yield process.pid, process.cmdline()


def _command(pid: int) -> Sequence[str] | None:
    import psutil

    try:
        return list(psutil.Process(pid).cmdline())
    except psutil.NoSuchProcess:
        return None
    except psutil.Error:  # of another user
        return []
