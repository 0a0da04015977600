"""A clock that is wrong: git's commits and tags, and the times of files, as a machine would make them whose
clock is off; and programs whose clock is off, and is set while they run."""

import time


def moved_clock(seconds: float) -> dict[str, str]:
    """Return the environment in which git makes commits and tags as if its clock were ahead by ``seconds``
    (behind if negative)."""
    now = f"@{int(time.time() + seconds)} +0000"
    return {"GIT_AUTHOR_DATE": now, "GIT_COMMITTER_DATE": now}
