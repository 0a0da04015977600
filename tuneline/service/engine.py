"""The threads that compute the rows of requests, all with one session of ONNX Runtime.

A forward pass of one thread beside others answers more rows than one pass of all threads at a time, because
the small operators of short texts do not divide well (docs/benchmarks.md). So there is a worker per core.

A request lets as many parts of its rows wait at a time as there are workers. So requests take turns, and one
with a thousand rows holds up no other. Nothing waits for a batch to fill: a worker takes the part that came
first, with parts of other requests that are as long. What has come while it computed is what the next batch
is made of. All of this is done in the event loop, so nothing is locked.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuneline.model.encoding import EncodingError
from tuneline.program.occlusion import WordEffect, word_effects
from tuneline.program.program_rows import BATCH_SIZE
from tuneline.program.text_classifier import Prediction, TextClassifier
from tuneline.runtime.terminal import say
from tuneline.service.requests import RequestError, ServiceLimits

MOST_CHARACTERS = 2_000
"""Characters of the rows that a worker takes at once, some 500 tokens; a row that has more is taken alone.

More are no faster on a processor, and make the others wait (docs/benchmarks.md).
"""
MOST_EXPLAINED_CHARACTERS = 10_000
"""Characters of a row that is explained: it is predicted again without each of its words."""
MOST_EXPLANATIONS = 16
"""Rows that are explained or wait for it; further ones are refused."""

LIKE_LENGTH = 0.75
"""Parts of two requests share a batch if the shorter rows have at least this share of the characters."""

RequestTexts = Sequence[tuple[str, ...]]
Computed = tuple[NDArray[np.float32], NDArray[np.bool_]]
"""Logits of rows, ``(rows, outputs)``, and which rows are longer than what the model reads."""


@dataclass(frozen=True, eq=False)
class RowsPart:
    """Rows of a request that are computed at once.

    Attributes:
        model: The model that was there when the request came.
        rows: The texts of each row.
        longest: Characters of the longest row.
        computed: Gets the result; done before that if nobody waits for it any more.
    """

    model: TextClassifier
    rows: RequestTexts
    longest: int
    computed: asyncio.Future[Computed]


class Engine:
    """The workers, and a thread that explains.

    Attributes:
        waiting_rows: Rows of requests that have no answer yet. Only the event loop changes it.
    """

    def __init__(self, workers: int, limits: ServiceLimits) -> None:
        """Take the number of workers, and what a request may take."""
        self.waiting_rows = 0
        self._explanations = 0
        self._number = workers
        self._free = workers
        self._parts: deque[RowsPart] = deque()
        self._limits = limits
        self._workers = ThreadPoolExecutor(workers, "worker")
        self._explainer = ThreadPoolExecutor(1, "explainer")

    def stop(self) -> None:
        """End the threads; nobody may wait for an answer."""
        for pool in (self._workers, self._explainer):
            pool.shutdown(cancel_futures=True)

    async def answer(
        self, model: TextClassifier, texts: RequestTexts, *, truncate: bool = True
    ) -> tuple[list[Prediction], NDArray[np.float32]]:
        """Predict the rows of a request; cancelled, what no worker has taken is not computed.

        Args:
            model: The model.
            texts: The texts of each row, at least one row.
            truncate: False to refuse rows that the model does not read to their end.

        Returns:
            The predictions, and the outputs of the model, ``(rows, outputs)``.

        Raises:
            RequestError: A row cannot be predicted, not in time, or too many rows wait.
        """
        if self.waiting_rows and self.waiting_rows + len(texts) > self._limits.waiting_rows:
            raise RequestError(429, "Too many rows wait. Try again.", retry_after="1")
        self.waiting_rows += len(texts)
        try:
            async with asyncio.timeout(self._limits.seconds):
                logits, truncated = await self._computed(model, texts)
        except TimeoutError:
            raise _late(self._limits) from None
        finally:
            self.waiting_rows -= len(texts)
        if not truncate and truncated.any():
            message = (
                f"row {truncated.argmax()}: {model.unread}. Leave out truncate: false, or divide the text."
            )
            raise RequestError(413, message)
        return model.predictions(model.task.scores(logits), truncated), logits

    async def explain(self, model: TextClassifier, row: tuple[str, ...]) -> list[WordEffect]:
        """Return the effects of the words of a row on its answer; cancelled, no more of it is computed.

        Raises:
            RequestError: The row is too long, cannot be explained in time, or too many wait.
        """
        characters = sum(map(len, row))
        if characters > MOST_EXPLAINED_CHARACTERS:
            limit = f"{MOST_EXPLAINED_CHARACTERS:,} characters at most"
            raise RequestError(413, f"The row has {characters:,} characters; words are left out of {limit}.")
        if self._explanations >= MOST_EXPLANATIONS:
            message = f"{self._explanations} rows wait to be explained. Try again later."
            raise RequestError(429, message, retry_after=f"{self._limits.seconds:.0f}")

        is_left = threading.Event()
        deadline = time.monotonic() + self._limits.seconds

        def check() -> None:
            if is_left.is_set() or time.monotonic() > deadline:
                raise _late(self._limits)

        def explained() -> list[WordEffect]:
            check()
            try:
                return word_effects(model, row, before_batch=check)
            except EncodingError as error:
                raise RequestError(422, f"The row without a word: {error.problem}") from None

        self._explanations += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._explainer, explained)
        finally:
            self._explanations -= 1
            is_left.set()

    async def _computed(self, model: TextClassifier, texts: RequestTexts) -> Computed:
        """Compute the rows of a request, part by part."""
        logits = np.empty((len(texts), model.task.outputs), np.float32)
        truncated = np.zeros(len(texts), bool)
        characters = [sum(map(len, row)) for row in texts]
        parts = deque(_divided(characters))

        async def compute() -> None:
            while parts:
                numbers = parts.popleft()
                rows = [texts[number] for number in numbers]
                computed = asyncio.get_running_loop().create_future()
                self._parts.append(RowsPart(model, rows, characters[numbers[-1]], computed))
                self._start()
                try:
                    logits[numbers], truncated[numbers] = await computed
                except EncodingError as error:
                    raise RequestError(422, f"row {numbers[error.row]}: {error.problem}") from None

        if len(parts) == 1:
            await compute()
            return logits, truncated
        try:
            await asyncio.gather(*(compute() for _ in range(min(self._number, len(parts)))))
        finally:
            parts.clear()  # one has failed, or nobody waits any more
        return logits, truncated

    def _start(self) -> None:
        """Give workers that have nothing to do what waits."""
        while self._free and self._parts:
            first = self._parts.popleft()
            if first.computed.done():
                continue
            self._free -= 1
            loop = asyncio.get_running_loop()
            batch = [first, *self._like(first)]
            working = loop.run_in_executor(self._workers, _computed_parts, batch)
            working.add_done_callback(self._worker_is_free)

    def _worker_is_free(self, _working: asyncio.Future[None]) -> None:
        self._free += 1
        self._start()

    def _like(self, first: RowsPart) -> list[RowsPart]:
        """Take parts that wait, and are like the first one, out of those that wait.

        Only for a model that predicts the same in every batch: else an answer would depend on who else asks.
        """
        like: list[RowsPart] = []
        if first.model.depends_on_batch:
            return like
        rows = len(first.rows)
        longest = first.longest
        for part in list(self._parts):
            shorter, longer = sorted((longest, part.longest))
            count = rows + len(part.rows)
            is_like = part.model is first.model and shorter >= LIKE_LENGTH * longer
            if is_like and count <= BATCH_SIZE and count * longer <= MOST_CHARACTERS:
                self._parts.remove(part)
                like.append(part)
                rows = count
                longest = longer
        return like


def _divided(characters: Sequence[int]) -> list[list[int]]:
    """Divide rows into parts of similar length, the shortest first; return the numbers of their rows."""
    parts: list[list[int]] = []
    for number in sorted(range(len(characters)), key=lambda number: characters[number]):
        rows = len(parts[-1]) + 1 if parts else BATCH_SIZE + 1
        if rows > BATCH_SIZE or rows * characters[number] > MOST_CHARACTERS:
            parts.append([])
        parts[-1].append(number)
    return parts


def _computed_parts(parts: Sequence[RowsPart]) -> None:
    """Compute parts of requests in one batch; if that fails, each alone."""
    model = parts[0].model
    rows = [row for part in parts for row in part.rows]
    try:
        encoded = model.encode(rows)
        logits = model.logits(encoded, BATCH_SIZE)
        truncated = model.truncated_rows(rows, encoded)
    except Exception as error:  # errors of ONNX Runtime have no class of their own
        if len(parts) > 1:
            for part in parts:
                _computed_parts([part])
            return
        if not isinstance(error, EncodingError):
            say(f"serve: {len(rows)} rows: {type(error).__name__}: {error}", error=True)
            error = RequestError(424, "The model cannot compute one of the rows.")
        _settle(parts[0], error)
        return

    first = 0
    for part in parts:
        last = first + len(part.rows)
        _settle(part, (logits[first:last], truncated[first:last]))
        first = last


def _settle(part: RowsPart, result: Computed | Exception) -> None:
    """Give the result of a part to the event loop."""

    def settle() -> None:
        if part.computed.done():
            return
        if isinstance(result, Exception):
            part.computed.set_exception(result)
        else:
            part.computed.set_result(result)

    part.computed.get_loop().call_soon_threadsafe(settle)


def _late(limits: ServiceLimits) -> RequestError:
    seconds = f"{limits.seconds:.0f}"
    message = f"There was no answer in {seconds} s. Send fewer rows or shorter texts, or try again."
    return RequestError(429, message, retry_after=seconds)
