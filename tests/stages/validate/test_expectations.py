import pandas as pd
import pytest

from stages.validate.columns import FrameColumns
from stages.validate.expectations import (
    ExpectColumnKsDistanceToBeAtMost,
    ExpectColumnLargestShareToBeAtMost,
    ExpectColumnShareOfTotalToBeAtMost,
    ExpectColumnStabilityIndexToBeAtMost,
)
from stages.validate.runner import read_outcomes, run_suites
from stages.validate.tables import Table


def outcome_of(expectation, **columns):
    """Return the outcome of one expectation on a table with these columns."""
    expectation.meta = {"check": "any"}
    table = Table("raw", "train", FrameColumns(pd.DataFrame(columns)), [expectation])
    [outcome] = read_outcomes([table], run_suites([table]))
    assert outcome.crashed is None
    return outcome


@pytest.mark.parametrize(("max_value", "passed"), [(0.75, True), (0.74, False)])
def test_largest_share_is_that_of_the_most_frequent_value(max_value, passed):
    outcome = outcome_of(ExpectColumnLargestShareToBeAtMost(column="labels", max_value=max_value), labels=[0, 1, 1, 1])
    assert (outcome.observed, outcome.passed) == (0.75, passed)


@pytest.mark.parametrize(
    ("unknown", "tokens", "share", "passed"), [([1, 0], [4, 6], 0.1, True), ([2, 1], [4, 6], 0.3, False), ([0, 0], [0, 0], 0.0, True)]
)
def test_share_of_total_is_a_ratio_of_sums(unknown, tokens, share, passed):
    expectation = ExpectColumnShareOfTotalToBeAtMost(column="unknown", total="tokens", max_value=0.2)
    outcome = outcome_of(expectation, unknown=unknown, tokens=tokens)
    assert (outcome.observed, outcome.passed) == (pytest.approx(share), passed)


DRIFT = [ExpectColumnStabilityIndexToBeAtMost, ExpectColumnKsDistanceToBeAtMost]


def drift(kind, counts, values, max_value=0.1, significance=0.01):
    expectation = kind(column="length", edges=[10.0], counts=counts, max_value=max_value, significance=significance)
    return outcome_of(expectation, length=values)


@pytest.mark.parametrize("kind", DRIFT)
def test_drift_passes_without_a_change(kind):
    outcome = drift(kind, [100, 100], [1.0] * 50 + [20.0] * 50)
    assert outcome.passed
    assert outcome.observed == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("kind", DRIFT)
def test_large_and_significant_drift_fails(kind):
    assert not drift(kind, [100, 100], [1.0] * 95 + [20.0] * 5).passed


@pytest.mark.parametrize("kind", DRIFT)
def test_large_drift_of_few_rows_passes_because_it_is_not_significant(kind):
    outcome = drift(kind, [100, 100], [1.0, 1.0, 1.0, 20.0])
    assert outcome.passed
    assert outcome.observed > 0.1


@pytest.mark.parametrize("kind", DRIFT)
def test_significant_drift_below_the_limit_passes(kind):
    outcome = drift(kind, [100_000, 100_000], [1.0] * 52_000 + [20.0] * 48_000)
    assert outcome.passed
    assert 0 < outcome.observed < 0.1
