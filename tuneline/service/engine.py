"""The threads that compute rows: each takes batches from the queue, all with one session of ONNX Runtime.

A forward pass of one thread beside others answers more rows than one pass of all threads at a time, because
the small operators of short texts do not divide well (docs/benchmarks.md). So there is a worker per core with
one thread each.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tuneline.program.row_windows import BATCH_SIZE
from tuneline.runtime.terminal import say
from tuneline.service.job_queue import JobQueue, Work
from tuneline.service.jobs import RowBatch, joined_rows

NOT_COMPUTED = "the model cannot compute this row"


class Engine:
    """Workers and their queue.

    Attributes:
        queue: The requests that wait.
        tokenizers: Threads that tokenize requests of many rows, as many as workers: with more, who waits for
            Python's lock waits longer.
        batches: Number of forward passes of each number of rows; the workers count.
    """

    def __init__(self, workers: int, most_rows: int, on_batch: Callable[[int, float], None]) -> None:
        """Start the threads.

        Args:
            workers: Their number.
            most_rows: Rows that wait at most.
            on_batch: Called after a forward pass with its rows and seconds.
        """
        self.queue = JobQueue(most_rows)
        self.tokenizers = ThreadPoolExecutor(max(workers, 1), "tokenizer")
        self._workers = workers
        self._on_batch = on_batch
        self._threads = []
        for number in range(workers):
            thread = threading.Thread(target=self._run, name=f"worker-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End the threads when they have computed what waits."""
        self.queue.close()
        for thread in self._threads:
            thread.join()
        self.tokenizers.shutdown(cancel_futures=True)

    def _run(self) -> None:
        """Compute until the queue is closed."""
        while True:
            work = self.queue.take()
            if work is None:
                return
            started = time.monotonic()
            _compute(work)
            seconds = time.monotonic() - started
            rows = sum(len(batch.rows) for _, batch in work.parts)
            self.queue.computed(self._workers * rows, seconds)
            self._on_batch(rows, seconds)


def _compute(work: Work) -> None:
    """Compute the rows of a batch, and keep their logits; if that fails, each alone.

    A row that the model cannot compute, for example because it takes more memory than there is, fails alone.
    """
    rows = []
    for job, batch in work.parts:
        rows += [job.rows[row] for row in batch.rows]
    try:
        logits = work.model.logits(joined_rows(rows), BATCH_SIZE)
    except Exception as error:  # errors of ONNX Runtime have no class of their own
        if len(rows) == 1:
            say(f"serve: {NOT_COMPUTED}: {type(error).__name__}: {error}", error=True)
            ((job, batch),) = work.parts
            job.fail(batch.rows, NOT_COMPUTED)
            return
        for job, batch in work.parts:
            for row in batch.rows:
                _compute(Work(work.model, [(job, RowBatch((row,), batch.longest, 1))]))
        return

    first = 0
    for job, batch in work.parts:
        job.finish(batch.rows, logits[first : first + len(batch.rows)])
        first += len(batch.rows)
