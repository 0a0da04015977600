import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.train.data import LengthBucketedSampler
from tuneline.model.batches import TokenizedRows

LENGTHS = np.random.default_rng(0).integers(3, 60, size=4000)


def sampler(lengths, batch_size, window, seed):
    return LengthBucketedSampler(TokenizedRows({}, np.cumsum([0, *lengths])), batch_size, seed, window)


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=120),
    batch_size=st.integers(1, 20),
    window=st.integers(1, 9),
    epoch=st.integers(0, 3),
)
def test_sampler_puts_every_row_in_exactly_one_batch(lengths, batch_size, window, epoch):
    batches = sampler(lengths, batch_size, window, seed=1).epoch(epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert [len(batch) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    assert len(batches) == sampler(lengths, batch_size, window, seed=1).batches_per_epoch


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=300),
    batch_size=st.integers(1, 20),
    window=st.integers(1, 9),
    epoch=st.integers(0, 1),
    start=st.integers(0, 20),
)
def test_batches_are_those_of_an_order_built_at_once(lengths, batch_size, window, epoch, start):
    """Also those from the middle of an epoch, where a run resumes."""
    lengths = np.array(lengths)
    permutation = np.random.default_rng((1, epoch)).permutation(len(lengths))
    full = len(lengths) // batch_size
    span = min(window, max(full // 4, 1)) * batch_size
    windows = [
        permutation[: full * batch_size][first : first + span] for first in range(0, full * batch_size, span)
    ]
    ordered = [
        rows[np.argsort(-lengths[rows], kind="stable")].reshape(-1, batch_size)
        for rows in [*windows, permutation[:0]]
    ]
    expected = [batch.tolist() for batch in np.concatenate(ordered)]
    if expected and epoch == 0:
        longest = max(range(full), key=lambda index: max(lengths[expected[index]]))
        expected[0], expected[longest] = expected[longest], expected[0]
    rest = permutation[full * batch_size :]
    expected += [rest[np.argsort(-lengths[rest], kind="stable")].tolist()] * (len(rest) > 0)
    batches = sampler(lengths, batch_size, window, seed=1).epoch(epoch)
    assert [batch.tolist() for batch in batches] == expected
    assert [batch.tolist() for batch in batches[start:]] == expected[start:]


def test_sampler_order_depends_on_seed_and_epoch_only():
    def order(seed, epoch):
        return np.concatenate(sampler(LENGTHS, 16, 10, seed).epoch(epoch)).tolist()

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


def padding(batches):
    positions = sum(len(batch) * LENGTHS[batch].max() for batch in batches)
    return 1 - LENGTHS.sum() / positions


def test_sampler_batches_rows_of_similar_length():
    assert padding(sampler(LENGTHS, 16, 1, seed=0).epoch(1)) > 0.35
    assert padding(sampler(LENGTHS, 16, 50, seed=0).epoch(1)) < 0.03


def test_sampler_redraws_batches_every_epoch():
    """Rows of equal length are shuffled before they are sorted, so that epochs differ."""
    drawn = sampler(LENGTHS, 16, 50, seed=0)
    first, second = ({tuple(sorted(batch)) for batch in drawn.epoch(epoch)} for epoch in (1, 2))
    assert len(first & second) <= 3


def test_sampler_sorts_each_window_from_long_to_short():
    means = [LENGTHS[batch].mean() for batch in sampler(LENGTHS, 16, 50, seed=0).epoch(1)]
    assert len(means) == 250
    for start in range(0, 250, 50):
        assert means[start : start + 50] == sorted(means[start : start + 50], reverse=True)
        assert means[start] > means[start - 1]


@pytest.mark.parametrize("rows", [16 * 9, 16 * 100])
def test_sampler_splits_small_data_into_several_windows(rows):
    means = np.array([LENGTHS[batch].mean() for batch in sampler(LENGTHS[:rows], 16, 50, seed=0).epoch(1)])
    assert (np.diff(means) > 0).sum() >= 3


def test_sampler_puts_the_longest_row_first_to_detect_out_of_memory_early():
    assert LENGTHS[sampler(LENGTHS, 16, 50, seed=0).epoch(0)[0]].max() == LENGTHS.max()


def test_sampler_draws_the_smaller_last_batch_at_random():
    """A row of a smaller batch has more weight; if they were always the longest rows, the model would favour
    them."""
    drawn = sampler(range(1, 36), 16, 50, seed=0)
    last = [set(drawn.epoch(epoch)[-1].tolist()) for epoch in range(4)]
    assert all(len(batch) == 3 for batch in last)
    assert len(set.union(*last)) > 8
