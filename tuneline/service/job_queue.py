"""The queue of the service: requests take turns, so that one with a thousand rows holds up no other.

Workers take batches from it. Nothing waits for a batch to fill: what has come while a worker computed is what
the next batch is made of.
"""

import threading
import time
from collections import deque
from dataclasses import dataclass, field

from tuneline.program.text_classifier import TextClassifier
from tuneline.service.jobs import MOST_TOKENS, RowBatch, RowJob

LIKE_LENGTH = 0.75
"""Rows of two requests share a batch if the shorter ones have at least this share of the tokens."""


class OverloadError(Exception):
    """More rows wait than the service takes.

    Attributes:
        seconds: After how long it can take these, as far as is known.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Too many rows wait. Try again in {seconds:.0f} s.")
        self.seconds = seconds


@dataclass
class Work:
    """What a worker computes at once: batches of one request or of several, all for one model."""

    model: TextClassifier
    parts: list[tuple[RowJob, RowBatch]] = field(default_factory=list)


class JobQueue:
    """Requests whose rows wait."""

    def __init__(self, most_rows: int) -> None:
        """Open the queue for ``most_rows`` waiting rows."""
        self._most_rows = most_rows
        self._jobs: deque[RowJob] = deque()
        self._condition = threading.Condition()
        self._is_closed = False
        self._waiting = 0
        self._rate = 0.0
        self._idle_jobs: deque[RowJob] = deque()

    @property
    def waiting_rows(self) -> int:
        """Rows that no worker has taken yet."""
        return self._waiting

    def reserve(self, rows: int) -> None:
        """Let rows wait that are not tokenized yet: what is refused shall not take that time first.

        Raises:
            OverloadError: Too many rows wait already.
        """
        with self._condition:
            if self._waiting and self._waiting + rows > self._most_rows:
                raise OverloadError(self._seconds_for(self._waiting))
            self._waiting += rows

    def release(self, rows: int) -> None:
        """Let rows wait no more that were reserved, and are not added after all."""
        with self._condition:
            self._waiting -= rows

    def add(self, job: RowJob, *, is_reserved: bool = False) -> None:
        """Add a request.

        Args:
            job: The request.
            is_reserved: True if its rows wait already.

        Raises:
            OverloadError: Too many rows wait already.
        """
        if not is_reserved:
            self.reserve(len(job.rows))
        with self._condition:
            self._jobs.append(job)
            self._condition.notify(len(job.batches))

    def add_idle(self, job: RowJob) -> bool:
        """Add rows that are computed when nothing else is to do; return False if too many wait already."""
        with self._condition:
            if len(self._idle_jobs) >= self._most_rows:
                return False
            self._idle_jobs.append(job)
            self._condition.notify()
        return True

    def take(self) -> Work | None:
        """Wait for work, and return it; ``None`` when the queue is closed and empty."""
        with self._condition:
            while True:
                work = self._next_work()
                if work is not None:
                    return work
                if self._is_closed:
                    return None
                self._condition.wait()

    def close(self) -> None:
        """Let workers end when they have computed what waits; idle work is dropped."""
        with self._condition:
            self._is_closed = True
            self._idle_jobs.clear()
            self._condition.notify_all()

    def computed(self, rows: int, seconds: float) -> None:
        """Note how long rows took, by which it is said how long others have to wait."""
        if seconds > 0:
            rate = rows / seconds
            self._rate = rate if self._rate == 0 else 0.9 * self._rate + 0.1 * rate

    def _seconds_for(self, rows: int) -> float:
        return max(1.0, rows / self._rate) if self._rate else 1.0

    def _next_work(self) -> Work | None:
        """Return the next batch of the request whose turn it is, with like batches of others."""
        job, batch = self._next_batch(self._jobs)
        if job is None or batch is None:
            job, batch = self._next_batch(self._idle_jobs)
            if job is None or batch is None:
                return None
            return Work(job.model, [(job, batch)])

        work = Work(job.model, [(job, batch)])
        if job.model.depends_on_batch:
            return work
        longest = batch.longest
        inputs = batch.inputs
        for other in list(self._jobs):
            if longest * (inputs + 1) > MOST_TOKENS:
                break
            if other.model is not job.model or other.is_late:
                continue
            like = other.batches[0]
            shorter, longer = sorted((like.longest, longest))
            if shorter < LIKE_LENGTH * longer or longer * (inputs + like.inputs) > MOST_TOKENS:
                continue
            work.parts.append((other, other.batches.popleft()))
            self._waiting -= len(like.rows)
            if not other.batches:
                self._jobs.remove(other)
            longest = longer
            inputs += like.inputs
        return work

    def _next_batch(self, jobs: deque[RowJob]) -> tuple[RowJob | None, RowBatch | None]:
        """Take the next batch of the first request; those that nobody waits for are dropped."""
        while jobs:
            job = jobs.popleft()
            if job.is_late:
                self._drop(job, jobs)
                continue
            batch = job.batches.popleft()
            if jobs is self._jobs:
                self._waiting -= len(batch.rows)
            if job.batches:
                jobs.append(job)
            return job, batch
        return None, None

    def _drop(self, job: RowJob, jobs: deque[RowJob]) -> None:
        """Fail the rows of a request that are left."""
        rows = [row for batch in job.batches for row in batch.rows]
        job.batches.clear()
        if jobs is self._jobs:
            self._waiting -= len(rows)
        job.fail(rows, DEADLINE)


DEADLINE = "the row was not computed in time"
"""Why rows of a request that waited too long have no answer."""


def deadline_in(seconds: float) -> float:
    """Return a time of ``time.monotonic``."""
    return time.monotonic() + seconds
