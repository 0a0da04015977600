"""Why a row got its answer: the effects of its words (``tuneline.program.occlusion``), by the workers.

The row without each of its words is up to 257 rows. They are one request in the queue, which takes turns with
all others, and few rows are explained at a time, so that explanations hold up no predictions.
"""

import asyncio
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from tuneline.model.encoding import EncodingError
from tuneline.program.occlusion import Occlusion, measured_effects, outputs_of_answer
from tuneline.program.text_classifier import TextClassifier
from tuneline.service.answering import AnsweredRows
from tuneline.service.engine import Engine
from tuneline.service.errors import RequestError, exceeding, overloaded, unprocessable
from tuneline.service.job_queue import DEADLINE, OverloadError
from tuneline.service.jobs import MOST_TOKENS, RowJob
from tuneline.service.limits import ServiceLimits

MOST_EXPLAINED_CHARACTERS = 10_000
"""Characters of a row that is explained: it is tokenized again without each of its words."""
EXPLAINED_AT_A_TIME = 2
"""Rows whose words are left out at a time; others wait."""
MOST_EXPLANATIONS = 16
"""Rows that are explained or wait for it; further ones are refused."""
SECONDS_BETWEEN_LOOKS = 1.0
"""How often a thread that waits for the workers looks if somebody still waits for itself."""


class Explainer:
    """Explains rows, some at a time."""

    def __init__(self, engine: Engine, limits: ServiceLimits) -> None:
        """Take the engine that computes, and what a request may take."""
        self._engine = engine
        self._limits = limits
        self._threads = ThreadPoolExecutor(EXPLAINED_AT_A_TIME, "explaining")
        self._asked = 0

    async def explain(self, answered: AnsweredRows) -> Occlusion:
        """Return the effects of the words of the only row of a request on its answer.

        Cancelled, its rows are computed no more.

        Raises:
            RequestError: The row cannot be explained in time, or too many wait.
        """
        if self._asked >= MOST_EXPLANATIONS:
            seconds = self._limits.seconds
            raise overloaded(f"{self._asked} rows wait to be explained. Try again later.", seconds)
        measurement = RowMeasurement(answered, self._engine, self._limits)
        self._asked += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, measurement.occlusion)
        finally:
            self._asked -= 1
            measurement.abandon()

    def stop(self) -> None:
        """End the threads; nobody may wait for an explanation."""
        self._threads.shutdown(cancel_futures=True)


class RowMeasurement:
    """The measurement of the words of one row, in a thread that waits for the workers."""

    def __init__(self, answered: AnsweredRows, engine: Engine, limits: ServiceLimits) -> None:
        """Take a request of one row that has its answer; its time begins."""
        (self._row,) = answered.texts
        self._model: TextClassifier = answered.model
        self._outputs = outputs_of_answer(self._model, self._model.task.scores(answered.logits))
        self._engine = engine
        self._limits = limits
        self._deadline = time.monotonic() + limits.seconds
        self._job: RowJob | None = None
        self._is_abandoned = False

    def occlusion(self) -> Occlusion:
        """Measure the effects.

        Raises:
            RequestError: A row cannot be predicted, or not in time.
        """
        return measured_effects(self._model, self._row, self._outputs, self._changes_in)

    def abandon(self) -> None:
        """Compute no more rows: nobody waits for them."""
        self._is_abandoned = True
        if self._job is not None:
            self._job.is_cancelled = True

    def _changes_in(self, rows: Sequence[tuple[str, ...]]) -> NDArray[np.float64]:
        """Return the changes of the scores in rows that lack words, ``(rows, outputs)``."""
        encoded = []
        for row in (self._row, *rows):
            self._check_time()
            try:
                encoded.append(self._model.encode([row]))
            except EncodingError as error:
                raise unprocessable(f"The row without a word cannot be tokenized: {error.problem}") from None

        # With an int8 model that rounds by what is in a batch, each row alone, as the answer is computed.
        most_tokens = 0 if self._model.depends_on_batch else MOST_TOKENS
        done = threading.Event()
        job = RowJob(self._model, encoded, done.set, self._deadline, most_tokens)
        self._job = job
        try:
            self._engine.queue.add(job)
        except OverloadError as error:
            raise overloaded(str(error), error.seconds) from None
        while not done.wait(SECONDS_BETWEEN_LOOKS):
            self._check_abandoned()

        self._check_abandoned()
        if job.failures:
            reason = next(iter(job.failures.values()))
            if reason == DEADLINE:
                raise self._late()
            raise RequestError(424, f"The row without a word: {reason}.", "Backend")
        scores = self._model.task.scores(job.logits)
        changes: NDArray[np.float64] = scores[1:] - scores[0]
        return changes

    def _check_time(self) -> None:
        self._check_abandoned()
        if time.monotonic() > self._deadline:
            raise self._late()

    def _check_abandoned(self) -> None:
        if self._is_abandoned:
            raise self._late()

    def _late(self) -> RequestError:
        seconds = self._limits.seconds
        message = f"The row was not predicted without each of its words in {seconds:.0f} s."
        return overloaded(f"{message} Try a shorter text, or try again.", seconds)


def refuse_long_row(row: tuple[str, ...]) -> None:
    """Refuse to explain a row of many characters.

    Raises:
        RequestError: It has more than ``MOST_EXPLAINED_CHARACTERS``.
    """
    characters = sum(map(len, row))
    if characters > MOST_EXPLAINED_CHARACTERS:
        limit = f"{MOST_EXPLAINED_CHARACTERS:,} characters at most"
        raise exceeding(f"The row has {characters:,} characters; words are left out of {limit}.")
