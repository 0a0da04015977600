"""Whose turn it is, and what is dropped."""

import threading
import time

import pytest

from tuneline import TextClassifier
from tuneline.service.job_queue import JobQueue, OverloadError
from tuneline.service.jobs import MOST_TOKENS, RowJob

LATER = 60


@pytest.fixture(scope="module")
def model(pair_folder):
    return TextClassifier.load(pair_folder, threads=1)


@pytest.fixture(scope="module")
def int8(pair_folder):
    return TextClassifier.load(pair_folder, "int8", threads=1)


def job(model, rows, *, seconds=LATER, text="the parcel", done=lambda: None):
    return RowJob(model, [model.encode([(text, "came")])] * rows, done, time.monotonic() + seconds)


def order(queue, model):
    """Take all work, and return the jobs of each."""
    queue.close()
    taken = []
    while (work := queue.take()) is not None:
        assert all(each.model is work.model for each, _ in work.parts)
        taken.append([each for each, _ in work.parts])
    return taken


def test_request_of_many_rows_does_not_hold_up_one(int8):
    queue = JobQueue(10_000)
    many = job(int8, 1000)
    one = job(int8, 1)
    queue.add(many)
    queue.add(one)
    taken = order(queue, int8)
    assert len(taken) > 10
    assert taken[1] == [one]


def test_rows_of_like_length_share_a_batch(model):
    queue = JobQueue(10_000)
    short = [job(model, 1), job(model, 1)]
    long = job(model, 1, text="parcel " * 60)
    for each in (short[0], long, short[1]):
        queue.add(each)
    assert order(queue, model) == [short, [long]]


def test_shared_batch_has_no_more_tokens_than_one_of_a_request(model):
    queue = JobQueue(10_000)
    jobs = [job(model, 1) for _ in range(200)]
    for each in jobs:
        queue.add(each)
    queue.close()
    rows = 0
    while (work := queue.take()) is not None:
        longest = max(batch.longest for _, batch in work.parts)
        assert longest * sum(batch.inputs for _, batch in work.parts) <= MOST_TOKENS
        rows += len(work.parts)
    assert rows == 200


def test_requests_share_no_batch_where_a_row_depends_on_it(int8):
    assert int8.depends_on_batch
    queue = JobQueue(10_000)
    jobs = [job(int8, 1), job(int8, 1)]
    for each in jobs:
        queue.add(each)
    assert order(queue, int8) == [[jobs[0]], [jobs[1]]]


def test_rows_of_another_model_share_no_batch(model, pair_folder):
    other = TextClassifier.load(pair_folder, threads=1)
    queue = JobQueue(10_000)
    jobs = [job(model, 1), job(other, 1), job(model, 1)]
    for each in jobs:
        queue.add(each)
    assert order(queue, model) == [[jobs[0], jobs[2]], [jobs[1]]]


def test_too_many_rows_are_refused_with_a_time(model):
    queue = JobQueue(10)
    queue.add(job(model, 8))
    queue.computed(4, 1.0)
    with pytest.raises(OverloadError) as error:
        queue.add(job(model, 3))
    assert error.value.seconds == 2
    queue.add(job(model, 2))
    assert queue.waiting_rows == 10


def test_one_request_larger_than_the_queue_is_taken_when_nothing_waits(model):
    queue = JobQueue(10)
    queue.add(job(model, 20))
    assert queue.waiting_rows == 20


def test_late_and_cancelled_rows_are_dropped(model):
    queue = JobQueue(100)
    done = []
    late = job(model, 3, seconds=-1, done=lambda: done.append("late"))
    cancelled = job(model, 2, done=lambda: done.append("cancelled"))
    cancelled.is_cancelled = True
    kept = job(model, 1)
    for each in (late, cancelled, kept):
        queue.add(each)
    assert order(queue, model) == [[kept]]
    assert done == ["late", "cancelled"]
    assert set(late.failures) == {0, 1, 2}
    assert queue.waiting_rows == 0


def test_idle_rows_are_taken_when_nothing_else_waits(model):
    queue = JobQueue(2)
    idle = job(model, 1)
    assert queue.add_idle(idle)
    asked = job(model, 1)
    queue.add(asked)
    assert [each for each, _ in queue.take().parts] == [asked]
    assert [each for each, _ in queue.take().parts] == [idle]
    assert queue.add_idle(idle)
    assert queue.add_idle(idle)
    assert not queue.add_idle(idle)


def test_worker_waits_until_there_is_work_or_the_queue_is_closed(model):
    queue = JobQueue(10)
    taken = []

    def take_twice():
        taken.append(queue.take())
        taken.append(queue.take())

    thread = threading.Thread(target=take_twice)
    thread.start()
    asked = job(model, 1)
    queue.add(asked)
    while not taken:
        time.sleep(0.001)
    assert thread.is_alive()
    queue.close()
    thread.join(10)
    assert [work and work.parts[0][0] for work in taken] == [asked, None]
