"""SIGKILL at every instant that matters: a function runs in a forked process, which kills itself before its
n-th step.

A step is an event of Python's audit hooks (https://peps.python.org/pep-0578/) that changes something outside
the process: a file opened for writing, a rename, a removal, a program started. Between two steps nothing
outside changes, so killing before each of them shows every state that a kill can leave behind, but for those
inside a program that was started.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

CHANGES = {
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "subprocess.Popen",
    "os.posix_spawn",
}


def changes(event: str, arguments: tuple[Any, ...]) -> bool:
    """Return True if an audit event changes something outside the process."""
    if event == "open":
        _, mode, flags = arguments
        return bool(flags & (os.O_WRONLY | os.O_RDWR)) if mode is None else bool(set(mode) & set("wax+"))
    return event in CHANGES


def kills(
    function: Callable[[], object],
    is_step: Callable[[str, tuple[Any, ...]], bool] = changes,
    *,
    every: int = 1,
) -> Iterator[int]:
    """Run ``function`` in a forked process again and again, killed before step 1, 2, 3, ..., until it ends by
    itself.

    The caller looks at what each kill left behind, and restores the state from before for the next one,
    unless the state after a kill is what the next run must deal with.

    Args:
        function: What is killed. It must not rely on threads of this process.
        is_step: Chooses the audit events, for example only ``os.rename``.
        every: Leave out steps: with 3, the function is killed before step 1, 4, 7, ...

    Yields:
        The number of the step before which the process was killed.

    Raises:
        AssertionError: The function failed instead of being killed or ending.
    """
    step = 1
    while (status := _forked(function, is_step, step)) == -signal.SIGKILL:
        yield step
        step += every
    assert status == 0, f"the function failed with {status} when it was not killed"


def some_of(every: int) -> pytest.MarkDecorator:
    """Give a test the parameter ``every`` for ``kills``: in the default suite some of the instants, in the
    slow set all."""
    return pytest.mark.parametrize("every", [every, pytest.param(1, marks=pytest.mark.slow)])


def killed(
    function: Callable[[], object], step: int, is_step: Callable[[str, tuple[Any, ...]], bool] = changes
) -> bool:
    """Run ``function`` in a forked process that is killed before one step; return False if it ended
    before."""
    return _forked(function, is_step, step) == -signal.SIGKILL


def _forked(
    function: Callable[[], object], is_step: Callable[[str, tuple[Any, ...]], bool], step: int
) -> int:
    """Return the exit status of the forked process, negative for a signal."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        _die_before(step, is_step)
        function()
        status = 0
    except BaseException:  # the process of the tests must not go on twice
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def _die_before(step: int, is_step: Callable[[str, tuple[Any, ...]], bool]) -> None:
    left = step

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if is_step(event, arguments):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
