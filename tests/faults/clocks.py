"""A clock that is wrong: git's commits and tags, and the times of files, as a machine would make them whose
clock is off; and programs whose clock is off, and is set while they run."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest


def moved_clock(seconds: float) -> dict[str, str]:
    """Return the environment in which git makes commits and tags as if its clock were ahead by ``seconds``
    (behind if negative)."""
    now = f"@{int(time.time() + seconds)} +0000"
    return {"GIT_AUTHOR_DATE": now, "GIT_COMMITTER_DATE": now}


CLOCK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead(void) {
    char text[32] = {0};
    int file = open(getenv("TEST_CLOCK_AHEAD"), O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, text, sizeof text - 1) < 0) abort();
    close(file);
    return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead();
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
"""
"""A library before the system's: the clock of the machine is ahead by the seconds in a file. The clock that
nobody sets is as it is."""


class WrongClock:
    """A clock for programs that are started with its environment."""

    def __init__(self, folder: Path, seconds: int) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("no C compiler: apt-get install gcc")
        folder.mkdir(parents=True, exist_ok=True)
        library = folder / "clock.so"
        command = [compiler, "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(library)]
        subprocess.run(command, input=CLOCK, text=True, check=True)
        self._ahead = folder / "ahead"
        self.set(seconds)
        self.env = {"LD_PRELOAD": str(library), "TEST_CLOCK_AHEAD": str(self._ahead)}

    def set(self, seconds: int) -> None:
        """Set it ahead of the machine's by so many seconds, at once in all programs."""
        partial = self._ahead.with_suffix(".partial")
        partial.write_text(str(seconds))
        partial.replace(self._ahead)
