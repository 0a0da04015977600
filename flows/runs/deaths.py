"""Stages that the system killed: which signal ended them, and whether memory had run out."""

import re
import signal
from pathlib import Path

from flows.runs.processes import ProgramError

FAULTS = (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS)
"""Signals by which a system or a driver ends a program; those by which a person stops one are others."""
KERNEL_COUNTERS = Path("/proc/vmstat")
_EXITED = re.compile(r"failed to run: .*, exited with (-?\d+)$")


class KilledError(ProgramError):
    """The system killed a stage.

    Args:
        number: The signal.
        error: What DVC, which ran the stage, ended with.
        kills: ``out_of_memory_kills()`` before the stage started.
    """

    def __init__(self, number: signal.Signals, error: ProgramError, kills: int | None) -> None:
        why = cause(number, kills, out_of_memory_kills())
        super().__init__(error.what, -number, [*([why] if why else []), *error.last])
        self.signal = number


def killed_by(error: ProgramError) -> signal.Signals | None:
    """Return the signal by which the system killed a stage, or the DVC that ran it; ``None`` if the stage failed by itself.

    DVC ends with an exit code of its own. It prints that of the stage: -N for signal N, 128 + N where a shell or
    ``stages.train.launch`` waited for the killed process, 256 - N where a program passed -N on.
    """
    codes = [int(match[1]) for match in map(_EXITED.search, error.last) if match]
    code = codes[-1] if codes else error.code
    return next((fault for fault in FAULTS if code in (-fault, 128 + fault, 256 - fault)), None)


def out_of_memory_kills() -> int | None:
    """Return how many processes the kernel has killed since the machine started because memory ran out; ``None`` if it does not say.

    Those of the memory limit of a container or service are included.
    """
    try:
        counters = dict(line.split() for line in KERNEL_COUNTERS.read_text(encoding="ascii").splitlines())
        return int(counters["oom_kill"])
    except (OSError, KeyError, ValueError):
        return None


def cause(number: signal.Signals, before: int | None, now: int | None) -> str | None:
    """Return the probable cause of a signal, for a person; ``None`` for a signal that says it itself.

    Args:
        number: The signal.
        before: ``out_of_memory_kills()`` before the program started.
        now: The same after its end.
    """
    if number != signal.SIGKILL:
        return None
    if before is None or now is None:
        return "Usually, that is the kernel's out-of-memory killer."
    if now > before:
        return "The kernel's out-of-memory killer was at work: the machine or the container has too little memory for this stage."
    return "The kernel counts no lack of memory, so a person or another program sent it."
