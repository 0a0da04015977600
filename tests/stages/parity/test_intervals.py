import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stages.parity.intervals import RESAMPLES, accuracy_drop_interval, pearson_drop_interval

OUTCOMES = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=200)


@given(OUTCOMES)
def test_the_interval_of_an_accuracy_drop_lies_around_it_or_beside_by_chance_only(outcomes):
    trained, exported = np.array(outcomes).T
    low, high = accuracy_drop_interval(trained, exported, seed=0)
    assert -1 <= low <= high <= 1
    if not np.any(trained != exported):
        assert (low, high) == (0, 0)


def test_drawing_kinds_of_rows_is_drawing_rows():
    """The same interval, but for chance, as from the bootstrap written out."""
    generator = np.random.default_rng(1)
    trained, exported = generator.random(500) < 0.9, generator.random(500) < 0.85
    draws = generator.integers(0, 500, (20_000, 500))
    drops = trained[draws].mean(axis=1) - exported[draws].mean(axis=1)
    np.testing.assert_allclose(accuracy_drop_interval(trained, exported, 0), np.quantile(drops, [0.025, 0.975]), atol=0.004)


def test_the_interval_of_a_correlation_drop_lies_around_it():
    generator = np.random.default_rng(1)
    labels = generator.normal(size=400).astype(np.float32)
    trained = labels + generator.normal(size=400).astype(np.float32) * 0.3
    exported = trained + generator.normal(size=400).astype(np.float32) * 0.3
    drop = np.corrcoef(labels, trained)[0, 1] - np.corrcoef(labels, exported)[0, 1]
    low, high = pearson_drop_interval(labels, trained, exported, seed=0)
    assert 0 < low < drop < high < 2 * drop


def test_a_constant_prediction_correlates_with_nothing():
    labels = np.arange(10, dtype=np.float32)
    low, high = pearson_drop_interval(labels, labels, np.zeros(10, np.float32), seed=0)
    assert (round(low, 6), round(high, 6)) == (1, 1)


def test_the_same_seed_gives_the_same_interval():
    generator = np.random.default_rng(1)
    trained, exported = generator.random(50) < 0.9, generator.random(50) < 0.8
    assert accuracy_drop_interval(trained, exported, 3) == accuracy_drop_interval(trained, exported, 3)
    assert RESAMPLES >= 1000
