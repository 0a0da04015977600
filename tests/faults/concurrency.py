"""Two at once: programs that start at the same instant, as two terminals or a schedule and a person start
them."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

Ended = subprocess.CompletedProcess[str]


def at_once(
    *commands: Sequence[str], cwd: Path, env: dict[str, str] | None = None, timeout: float = 120
) -> list[subprocess.CompletedProcess[str]]:
    """Run commands at the same time and return how each ended, in their order.

    Raises:
        subprocess.TimeoutExpired: One did not end in time: they wait for each other.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, cwd=cwd, env=env, **pipes) for command in commands]
    try:
        outputs = [process.communicate(timeout=timeout) for process in running]
    finally:
        for process in running:
            process.kill()
    return [
        subprocess.CompletedProcess(process.args, process.returncode, out, err)
        for process, (out, err) in zip(running, outputs, strict=True)
    ]
