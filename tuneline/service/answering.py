"""From the texts of a request to its predictions."""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuneline.model.encoding import EncodingError
from tuneline.onnx.exported_model import EncodedRows
from tuneline.program.prediction import Prediction
from tuneline.program.text_classifier import TextClassifier
from tuneline.service.engine import Engine
from tuneline.service.errors import RequestError, exceeding, overloaded, unprocessable
from tuneline.service.job_queue import DEADLINE, OverloadError
from tuneline.service.jobs import RowJob
from tuneline.service.limits import ServiceLimits

AT_ONCE = 4_000
"""Characters up to which a request is tokenized without another thread: meanwhile nobody else is answered."""
CHARACTERS_OF_A_ROW = 200
"""Characters that take as long as what a row takes besides."""
RequestTexts = Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class AnsweredRows:
    """The rows of a request with their predictions.

    Attributes:
        model: The model that has computed them.
        texts: The texts of each row.
        logits: Its outputs, ``(rows, outputs)``.
        predictions: The predictions.
        tokens: Tokens of all rows.
    """

    model: TextClassifier
    texts: RequestTexts
    logits: NDArray[np.float32]
    predictions: Sequence[Prediction]
    tokens: int


async def answer_rows(
    model: TextClassifier,
    texts: RequestTexts,
    engine: Engine,
    limits: ServiceLimits,
    *,
    truncate: bool = True,
) -> AnsweredRows:
    """Predict the rows of a request; cancelled, those that no worker has taken are computed no more.

    Args:
        model: The model.
        texts: The texts of each row, at least one row.
        engine: What computes them.
        limits: What a request may take.
        truncate: False to refuse rows that the model does not read to their end.

    Raises:
        RequestError: A row cannot be predicted, too many rows wait, or there are too many in the request.
    """
    try:
        engine.queue.reserve(len(texts))
    except OverloadError as error:
        raise overloaded(str(error), error.seconds) from None
    try:
        rows = await _encoded(model, texts, engine)
        if not truncate:
            _refuse_truncated(model, rows)
    except BaseException:
        engine.queue.release(len(texts))
        raise

    # the workers
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    job = RowJob(model, rows, lambda: loop.call_soon_threadsafe(done.set), time.monotonic() + limits.seconds)
    engine.queue.add(job, is_reserved=True)
    try:
        await done.wait()
    finally:
        job.is_cancelled = True
    _refuse_failed(job, limits)

    scores = model.task.scores(job.logits)
    truncated = np.array([row.truncated > 0 for row in rows])
    predictions = model.predictions(scores, truncated)
    tokens = sum(int(row.offsets[-1]) for row in rows)
    return AnsweredRows(model, texts, job.logits, predictions, tokens)


async def _encoded(model: TextClassifier, texts: RequestTexts, engine: Engine) -> list[EncodedRows]:
    """Tokenize rows as long as somebody waits for them."""
    is_left = threading.Event()
    characters = sum(len(text) for row in texts for text in row)
    if characters + CHARACTERS_OF_A_ROW * len(texts) <= AT_ONCE:
        return _encoded_rows(model, texts, is_left)
    loop = asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(engine.tokenizers, _encoded_rows, model, texts, is_left)
    finally:
        is_left.set()


def _encoded_rows(model: TextClassifier, texts: RequestTexts, is_left: threading.Event) -> list[EncodedRows]:
    """Tokenize each row alone, so that the error of one names it, and batches can have any rows."""
    rows = []
    for number, row in enumerate(texts):
        if is_left.is_set():
            break
        try:
            rows.append(model.encode([row]))
        except EncodingError as error:
            raise unprocessable(f"row {number}: {error.problem}") from None
    return rows


def _refuse_truncated(model: TextClassifier, rows: Sequence[EncodedRows]) -> None:
    for number, row in enumerate(rows):
        if row.truncated:
            raise exceeding(f"row {number}: {model.unread}. Leave out truncate: false, or divide the text.")


def _refuse_failed(job: RowJob, limits: ServiceLimits) -> None:
    """Refuse a request of which a row has no logits."""
    if not job.failures:
        return
    number = min(job.failures)
    reason = job.failures[number]
    if reason == DEADLINE:
        message = f"row {number}: {reason}: {limits.seconds:.0f} s. Send fewer rows, or try again."
        raise overloaded(message, limits.seconds)
    raise RequestError(424, f"row {number}: {reason}.", "Backend")
