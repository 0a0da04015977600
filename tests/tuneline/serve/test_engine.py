"""Workers: every row of every request gets the logits that it would get alone, and nobody waits for long."""

import asyncio
import threading

import numpy as np
import pytest

from tests.small_pipeline import WORDS
from tuneline import TextClassifier
from tuneline.serve.engine import Engine
from tuneline.serve.requests import RequestError, ServiceLimits

PAIR = ("the parcel", "never came")


@pytest.fixture(scope="module")
def model(pair_folder):
    return TextClassifier.load(pair_folder, threads=1)


@pytest.fixture
def engine():
    engine = Engine(2, ServiceLimits())
    yield engine
    engine.stop()


@pytest.fixture
def busy():
    """An engine whose only worker is busy."""
    engine = Engine(1, ServiceLimits(waiting_rows=50, seconds=0.3))
    engine.free = threading.Event()
    engine._workers.submit(engine.free.wait)
    yield engine
    engine.free.set()
    engine.stop()


async def logits_of(engine, model, requests):
    answers = await asyncio.gather(*(engine.answer(model, texts) for texts in requests))
    return [logits for _, logits in answers]


def test_rows_of_all_requests_get_their_own_logits(engine, model):
    texts = [(" ".join(WORDS[: 1 + number % 30]), WORDS[number % 7]) for number in range(90)]
    alone = np.concatenate([model.logits(model.encode([row]), 1) for row in texts])
    requests = [texts[start : start + 1 + start % 5] for start in range(0, 85, 5)]
    for start, logits in zip(range(0, 85, 5), asyncio.run(logits_of(engine, model, requests)), strict=True):
        np.testing.assert_allclose(logits, alone[start : start + len(logits)], atol=1e-5)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_request_is_answered_alike_whoever_else_asks(engine, pair_folder, precision):
    model = TextClassifier.load(pair_folder, precision, threads=1)
    rows = [(word * 3, "came") for word in WORDS]
    (alone,) = asyncio.run(logits_of(engine, model, [rows]))
    others = [rows[number : number + 3] for number in range(8)]
    together = asyncio.run(logits_of(engine, model, [*others, rows]))[-1]
    np.testing.assert_allclose(together, alone, atol=0 if precision == "int8" else 1e-6)


def test_requests_take_turns(model):
    """One of a single row is answered before one of a thousand that came first."""
    engine = Engine(1, ServiceLimits())
    ended = []

    async def ask(name, rows):
        await engine.answer(model, [PAIR] * rows)
        ended.append(name)

    async def ask_both():
        await asyncio.gather(ask("many", 1000), ask("one", 1))

    asyncio.run(ask_both())
    engine.stop()
    assert ended == ["one", "many"]


def test_batch_that_the_model_cannot_compute_fails_its_request_alone(engine, model, monkeypatch):
    """Its token is none of the vocabulary, so that ONNX Runtime fails."""
    encode = TextClassifier.encode

    def encoded(self, texts):
        rows = encode(self, texts)
        if texts[0] != PAIR:
            rows.values["input_ids"][:] = 10**6
        return rows

    monkeypatch.setattr(TextClassifier, "encode", encoded)

    async def ask_both():
        bad = engine.answer(model, [("the parcel", "is bad")])
        return await asyncio.gather(bad, engine.answer(model, [PAIR]), return_exceptions=True)

    error, (predictions, _) = asyncio.run(ask_both())
    assert (error.status_code, len(predictions)) == (424, 1)
    assert "ONNXRuntimeError" in str(error.__cause__)


def test_rows_that_wait_too_long_are_given_up(busy, model):
    with pytest.raises(RequestError, match="no answer in 0 s") as error:
        asyncio.run(busy.answer(model, [PAIR]))
    assert (error.value.status_code, "retry-after" in error.value.headers) == (429, True)
    assert busy.waiting_rows == 0


def test_too_many_rows_are_refused_and_those_of_a_client_that_left_are_not_computed(busy, model, monkeypatch):
    computed = []
    encode = TextClassifier.encode
    monkeypatch.setattr(
        TextClassifier, "encode", lambda self, rows: computed.extend(rows) or encode(self, rows)
    )

    async def ask():
        waiting = asyncio.ensure_future(busy.answer(model, [("left", "alone")] * 50))
        await asyncio.sleep(0.1)
        with pytest.raises(RequestError, match="Too many rows") as error:
            await busy.answer(model, [PAIR])
        waiting.cancel()
        await asyncio.wait({waiting})
        busy.free.set()
        predictions, _ = await busy.answer(model, [PAIR])
        return error.value.status_code, len(predictions)

    assert asyncio.run(ask()) == (429, 1)
    assert computed == [PAIR]
