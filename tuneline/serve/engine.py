"""The threads that compute the rows of requests, all with one session of ONNX Runtime.

A forward pass of one thread beside others answers more rows than one pass of all threads at a time, because
the small operators of short texts do not divide well (docs/benchmarks.md). So there is a worker per core.

A request lets as many parts of its rows wait at a time as there are workers. So requests take turns, and one
with a thousand rows holds up no other. Rows of several requests are never computed together: on a processor
that is hardly faster, and the answers of an int8 model would depend on who else asks.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from tuneline.model.tokens.encoding import EncodingError
from tuneline.serve.occlusion import WordEffect, word_effects
from tuneline.serve.program_rows import BATCH_SIZE
from tuneline.serve.requests import RequestError, ServiceLimits
from tuneline.serve.text_classifier import Prediction, TextClassifier

MOST_CHARACTERS = 2_000
"""Characters of the rows that a worker takes at once, some 500 tokens; a row that has more is taken alone.

More are no faster on a processor, and make the others wait (docs/benchmarks.md).
"""
MOST_EXPLAINED_CHARACTERS = 10_000
"""Characters of a row that is explained: it is predicted again without each of its words."""

RequestTexts = Sequence[tuple[str, ...]]
Computed = tuple[NDArray[np.float32], NDArray[np.bool_]]
"""Logits of rows, ``(rows, outputs)``, and which rows are longer than what the model reads."""


class Engine:
    """The workers, and a thread that explains.

    Attributes:
        waiting_rows: Rows of requests that have no answer yet. Only the event loop changes it.
    """

    def __init__(self, workers: int, limits: ServiceLimits) -> None:
        """Take the number of workers, and what a request may take."""
        self.waiting_rows = 0
        self._number = workers
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
            raise RequestError(429, "Too many rows wait. Try again.", {"retry-after": "1"})
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
            RequestError: The row is too long, or cannot be explained in time.
        """
        characters = sum(map(len, row))
        if characters > MOST_EXPLAINED_CHARACTERS:
            limit = f"{MOST_EXPLAINED_CHARACTERS:,} characters at most"
            raise RequestError(413, f"The row has {characters:,} characters; words are left out of {limit}.")
        is_left = threading.Event()

        def check() -> None:
            if is_left.is_set():
                raise _late(self._limits)

        def explained() -> list[WordEffect]:
            try:
                return word_effects(model, row, before_batch=check)
            except EncodingError as error:
                raise RequestError(422, f"The row without a word: {error.problem}") from None

        try:
            async with asyncio.timeout(self._limits.seconds):
                return await asyncio.get_running_loop().run_in_executor(self._explainer, explained)
        except TimeoutError:
            raise _late(self._limits) from None
        finally:
            is_left.set()

    async def _computed(self, model: TextClassifier, texts: RequestTexts) -> Computed:
        """Compute the rows of a request, part by part."""
        logits = np.empty((len(texts), model.task.outputs), np.float32)
        truncated = np.zeros(len(texts), bool)
        parts = deque(_divided([sum(map(len, row)) for row in texts]))
        loop = asyncio.get_running_loop()

        async def compute() -> None:
            while parts:
                numbers = parts.popleft()
                rows = [texts[number] for number in numbers]
                try:
                    computed = await loop.run_in_executor(self._workers, _computed_rows, model, rows)
                except EncodingError as error:
                    raise RequestError(422, f"row {numbers[error.row]}: {error.problem}") from None
                logits[numbers], truncated[numbers] = computed

        try:
            working = [compute() for _ in range(min(self._number, len(parts)))]
            await asyncio.gather(*working)
        finally:
            parts.clear()  # one has failed, or nobody waits any more
        return logits, truncated


def _divided(characters: Sequence[int]) -> list[list[int]]:
    """Divide rows into parts of similar length, the shortest first; return the numbers of their rows."""
    parts: list[list[int]] = []
    for number in sorted(range(len(characters)), key=lambda number: characters[number]):
        rows = len(parts[-1]) + 1 if parts else BATCH_SIZE + 1
        if rows > BATCH_SIZE or rows * characters[number] > MOST_CHARACTERS:
            parts.append([])
        parts[-1].append(number)
    return parts


def _computed_rows(model: TextClassifier, rows: RequestTexts) -> Computed:
    """Compute rows in one batch."""
    try:
        encoded = model.encode(rows)
        return model.logits(encoded, BATCH_SIZE), model.truncated_rows(rows, encoded)
    except EncodingError:
        raise
    except Exception as error:  # errors of ONNX Runtime have no class of their own
        raise RequestError(424, "The model cannot compute one of the rows.") from error


def _late(limits: ServiceLimits) -> RequestError:
    seconds = f"{limits.seconds:.0f}"
    message = f"There was no answer in {seconds} s. Send fewer rows or shorter texts, or try again."
    return RequestError(429, message, {"retry-after": seconds})
