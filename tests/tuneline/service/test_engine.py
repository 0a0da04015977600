"""Workers: every row of every request gets the logits that it would get alone."""

import threading
import time

import numpy as np
import pytest

from tests.small_pipeline import WORDS
from tuneline import TextClassifier
from tuneline.service.engine import NOT_COMPUTED, Engine
from tuneline.service.jobs import RowJob

LATER = 60


@pytest.fixture(scope="module")
def model(pair_folder):
    return TextClassifier.load(pair_folder, threads=1)


@pytest.fixture
def engine():
    batches = []
    engine = Engine(2, 10_000, lambda rows, seconds: batches.append((rows, seconds)))
    engine.seen = batches
    yield engine
    engine.stop()


def asked(engine, model, rows):
    """Ask for rows, and return the job with an event that is set when it is done."""
    done = threading.Event()
    job = RowJob(model, rows, done.set, time.monotonic() + LATER)
    engine.queue.add(job)
    return job, done


def test_rows_of_all_requests_get_their_own_logits(engine, model):
    texts = [(" ".join(WORDS[: 1 + number % 30]), WORDS[number % 7]) for number in range(90)]
    alone = np.concatenate([model.logits(model.encode([row]), 1) for row in texts])
    rows = [model.encode([row]) for row in texts]
    jobs = [asked(engine, model, rows[start : start + 1 + start % 5]) for start in range(0, 85, 5)]
    for start, (job, done) in zip(range(0, 85, 5), jobs, strict=True):
        assert done.wait(LATER)
        assert not job.failures
        np.testing.assert_allclose(job.logits, alone[start : start + 1 + start % 5], atol=1e-5)
    assert sum(count for count, _ in engine.seen) == sum(len(job.rows) for job, _ in jobs)


def test_request_is_answered_alike_whoever_else_asks(engine, pair_folder):
    int8 = TextClassifier.load(pair_folder, "int8", threads=1)
    rows = [int8.encode([(word * 3, "came")]) for word in WORDS]
    job, done = asked(engine, int8, rows)
    assert done.wait(LATER)
    others = [asked(engine, int8, rows[number : number + 3]) for number in range(8)]
    again, again_done = asked(engine, int8, rows)
    for _, other_done in [*others, (again, again_done)]:
        assert other_done.wait(LATER)
    np.testing.assert_array_equal(again.logits, job.logits)


def test_row_that_the_model_cannot_compute_fails_alone(engine, model, capsys):
    """Its token is none of the vocabulary, so that ONNX Runtime fails on the whole batch."""
    good = model.encode([("the parcel", "came")])
    bad = type(good)(
        {**good.values, "input_ids": np.full_like(good.values["input_ids"], 10**6)}, good.offsets, 0
    )
    first, first_done = asked(engine, model, [good, bad, good])
    second, second_done = asked(engine, model, [good])
    assert first_done.wait(LATER)
    assert second_done.wait(LATER)
    assert first.failures == {1: NOT_COMPUTED}
    assert not second.failures
    np.testing.assert_allclose(first.logits[[0, 2]], np.repeat(second.logits, 2, axis=0), atol=1e-5)
    assert NOT_COMPUTED in capsys.readouterr().err


def test_stopped_engine_computes_what_waits(model):
    engine = Engine(1, 1000, lambda _rows, _seconds: None)
    rows = [model.encode([("the parcel", "came")])]
    jobs = [asked(engine, model, rows) for _ in range(50)]
    engine.stop()
    assert all(done.is_set() and not job.failures for job, done in jobs)
