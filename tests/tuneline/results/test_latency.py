import numpy as np

from tuneline.results.latency import MAX_CALLS, WARM_UP, full_batches, time_calls


def test_rows_are_split_into_full_batches_and_few_rows_into_one():
    assert [len(part) for part in full_batches(np.arange(70), 32)] == [32, 32]
    assert [len(part) for part in full_batches(np.arange(7), 32)] == [7]


def test_number_of_timed_calls_is_limited():
    assert len(list(time_calls(lambda batch: None, [{"input_ids": [1]}], seconds=60))) == MAX_CALLS


def test_warmup_is_not_timed():
    called = []
    assert len(list(time_calls(called.append, [{"input_ids": [1]}] * 5, seconds=0))) == 1
    assert len(called) == WARM_UP + 1
