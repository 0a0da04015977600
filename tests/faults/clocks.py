"""A clock that is wrong: git's commits and tags, and the times of files, as a machine would make them whose
clock is off."""

import os
import time
from pathlib import Path


def moved_clock(seconds: float) -> dict[str, str]:
    """Return the environment in which git makes commits and tags as if its clock were ahead by ``seconds``
    (behind if negative)."""
    now = f"@{int(time.time() + seconds)} +0000"
    return {"GIT_AUTHOR_DATE": now, "GIT_COMMITTER_DATE": now}


def date_file(path: Path, seconds: float) -> None:
    """Give a file the time that it would have, had it been written ``seconds`` from now."""
    moment = time.time() + seconds
    os.utime(path, (moment, moment))
