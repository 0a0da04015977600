import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tuneline.model.tokens.batches import TokenizedRows
from tuneline.training.data import LengthBucketedSampler

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


def test_sampler_puts_the_longest_row_first_to_detect_out_of_memory_early():
    assert LENGTHS[sampler(LENGTHS, 16, 50, seed=0).epoch(0)[0]].max() == LENGTHS.max()


def test_sampler_draws_the_smaller_last_batch_at_random():
    """A row of a smaller batch has more weight; if they were always the longest rows, the model would favour
    them."""
    drawn = sampler(range(1, 36), 16, 50, seed=0)
    last = [set(drawn.epoch(epoch)[-1].tolist()) for epoch in range(4)]
    assert all(len(batch) == 3 for batch in last)
    assert len(set.union(*last)) > 8
