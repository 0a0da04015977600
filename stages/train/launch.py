"""Start training and say how it ended.

Start: ``python -m stages.train.launch``, with any flags of ``accelerate launch``. The training runs in a
child process, which accelerate's launcher sets up (stages/train/accelerate_launch.py): if the system kills
it, somebody has to say so, and how to continue. This process imports nothing that takes time or memory.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from tuneline.paths import CHECKPOINTS
from tuneline.runtime.errors import PERMANENT
from tuneline.runtime.processes import PARENT, end_with_parent
from tuneline.runtime.terminal import say

INTERRUPTED = os.EX_TEMPFAIL
"""Exit code of an interrupted run that can be resumed: 75."""
CRASHED = os.EX_SOFTWARE
"""Exit code of a run that ended with a traceback: 70."""
LAUNCHED = ("DVC_STAGE", "ACCELERATE_MIXED_PRECISION", "TORCHELASTIC_RUN_ID")
"""Environment variables that DVC, accelerate's launcher and torchrun set for the processes they start."""
STOPPING = (signal.SIGTERM, signal.SIGINT)
ALLOCATOR = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
}
"""Environment of a training with which glibc asks for huge pages, and keeps freed memory for the next step.

By default it returns a tensor of more than 32 MiB, such as the gradient of a vocabulary, to the system, and
gets it back page by page (docs/benchmarks.md).
"""


def main() -> int:
    """Run the training and return the exit code.

    It is 0 after success, 1 or 78 after an error, 75 after an interruption, and 128 + N after signal N.
    """
    started = time.time()
    child: subprocess.Popen[bytes] | None = None
    stopped = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        if child is not None:
            child.terminate()

    for number in STOPPING:
        signal.signal(number, stop)
    end_with_launcher()
    command = [sys.executable, "-m", "stages.train.accelerate_launch", *sys.argv[1:]]
    environment = {**ALLOCATOR, **os.environ, PARENT: str(os.getpid())}
    child = subprocess.Popen(command, env=environment, preexec_fn=ignore_ctrl_c)  # noqa: PLW1509 - there is one thread
    if stopped:  # the signal came before there was a child to pass it on to
        child.terminate()

    code = child.wait()
    if code < 0:  # as a shell reports signal N
        code = 128 - code
    message, status = describe_end(code, resume_hint(started))
    if message:
        say(f"train: {message}", error=True)
    return status


def ignore_ctrl_c() -> None:
    """Ignore SIGINT until the training handles it: while Python imports, it would end in a traceback.

    SIGTERM, which this process sends then, ends the child without one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def describe_end(code: int, hint: str) -> tuple[str | None, int]:
    """Return the last line of the run, and its exit code.

    Args:
        code: Exit code of the training; 128 + N after signal N.
        hint: How to continue.

    Returns:
        The line, ``None`` where the training has printed its own (after its end, an error or an
        interruption), and the exit code of the run.
    """
    if code in (0, 1, PERMANENT, INTERRUPTED):
        return None, code
    if code == CRASHED:
        return f"ended by an unexpected error; the traceback is above. {hint}", 1
    if code - 128 in STOPPING:  # before or after the time in which the training handles them
        return f"stopped. {hint}", INTERRUPTED
    if code - 128 == signal.SIGKILL:
        return (
            "killed. The system kills a process when memory runs out: lower train.micro_batch_size"
            f" (global_batch_size can stay). {hint}"
        ), code
    return f"ended with exit code {code}. {hint}", code


def resume_hint(started: float) -> str:
    """Return how to continue the run that has written checkpoints since ``started``.

    ``started`` is in seconds since the epoch.
    """
    # one second earlier: file systems and the clock differ in resolution
    steps: list[Path] = []
    for file in CHECKPOINTS.glob("*/run.json"):
        if file.stat().st_mtime >= started - 1:
            steps += file.parent.glob("step-*")
    if not steps:
        return "`dvc repro` starts again, from the last checkpoint if there is one."
    newest = max(steps)
    return f"`dvc repro` resumes from step {int(newest.name.removeprefix('step-'))} ({newest})."


def end_with_launcher() -> None:
    """Get SIGTERM when the process that started this one ends.

    Then a checkpoint is saved, and nothing is published. A process that a person started, in a terminal or
    with nohup, may outlive what started it.
    """
    if PARENT in os.environ or any(name in os.environ for name in LAUNCHED):
        end_with_parent(int(os.environ.get(PARENT, os.getppid())))


if __name__ == "__main__":
    sys.exit(main())
