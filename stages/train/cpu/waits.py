"""Waits of OpenMP's threads for each other, on cores that other programs use as well."""

import contextlib
import math
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import torch

INTERVAL = 1.0
"""Seconds between two readings of the scheduler's statistics."""
THRESHOLD = 0.05
"""The cores count as shared if the main thread waits for one for more than this fraction of the time."""
IDLE_THREAD = "idle OpenMP team"
_STATISTICS = Path("/proc/self/schedstat")
"""Statistics of the main thread (Linux): nanoseconds on a core, and waiting for one; number of turns."""
_PER_THREAD = 2**16
"""Elements of a tensor for each thread that is to take part in filling it.

torch gives a thread at least half as many.
"""


@contextlib.contextmanager
def short_waits_on_shared_cores() -> Iterator[None]:
    """Until the block ends, shorten the waits of OpenMP's threads while other programs use the cores.

    Does nothing for a single thread, and on systems without the statistics.
    """
    if torch.get_num_threads() == 1 or not _STATISTICS.exists():
        yield
        return
    ended = threading.Event()
    observer = threading.Thread(target=_observe, args=(ended,), name="contention", daemon=True)
    observer.start()
    try:
        yield
    finally:
        ended.set()
        observer.join()


def _observe(ended: threading.Event) -> None:
    """Start idle teams when the cores become shared, and end them when they no longer are."""
    with contextlib.ExitStack() as teams:
        active = False
        last_time = time.monotonic()
        last_waited = _waited()
        while not ended.wait(INTERVAL):
            # fraction of the time since the last reading in which the main thread waited
            now = time.monotonic()
            waited = _waited()
            shared = (waited - last_waited) / (now - last_time) > THRESHOLD
            last_time = now
            last_waited = waited

            if shared and not active:
                cores = len(os.sched_getaffinity(0))
                for _ in range(teams_needed(torch.get_num_threads(), cores)):
                    teams.enter_context(_idle_team())
            elif active and not shared:
                teams.close()
            active = shared


def _waited() -> float:
    """Return the seconds that the main thread has waited for a core since it started."""
    return int(_STATISTICS.read_text(encoding="ascii").split()[1]) / 1e9


def teams_needed(threads: int, cores: int) -> int:
    """Return how many more teams make libgomp manage more threads than there are cores.

    It does not count a team's first thread.
    """
    return max(math.ceil((cores + 1 - threads) / (threads - 1)), 1)


@contextlib.contextmanager
def _idle_team() -> Iterator[None]:
    """Keep a thread that has computed once: libgomp keeps its team of threads until it ends."""
    ended = threading.Event()

    def compute_and_sleep() -> None:
        torch.zeros(torch.get_num_threads() * _PER_THREAD).add_(1)
        ended.wait()

    thread = threading.Thread(target=compute_and_sleep, name=IDLE_THREAD, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
