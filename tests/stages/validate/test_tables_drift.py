"""A drift fails its check if a distance from the reference is large and significant."""

import numpy as np
import pytest

from stages.validate.tables import drift_columns
from tuneline.analysis.drift import Distribution
from tuneline.params.validate import DriftRule

NAMES = ("length_drift", "length_drift_ks")


def drift(counts, values):
    rule = DriftRule(severity="warning", max_psi=0.1, max_ks=0.1, significance=0.01)
    return drift_columns("length_drift", rule, np.array(values), Distribution((10.0,), counts), ordered=True)


def test_distance_without_a_change_is_small():
    found = drift((100, 100), [1.0] * 50 + [20.0] * 50 + [np.nan])
    assert [found[name] for name in NAMES] == pytest.approx([0, 0], abs=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_large_and_significant_distance_is_beyond_the_limit(name):
    found = drift((100, 100), [1.0] * 95 + [20.0] * 5)
    assert found[f"significant_{name}"] == found[name] > 0.1


@pytest.mark.parametrize("name", NAMES)
def test_large_distance_of_few_rows_is_not_significant(name):
    found = drift((100, 100), [1.0, 1.0, 1.0, 20.0])
    assert found[name] > 0.1
    assert found[f"significant_{name}"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_small_distance_of_many_rows_is_significant(name):
    found = drift((100_000, 100_000), [1.0] * 52_000 + [20.0] * 48_000)
    assert 0 < found[f"significant_{name}"] < 0.1


def test_classes_have_no_order():
    rule = DriftRule(severity="warning", max_psi=0.1, max_ks=0.1, significance=0.01)
    assert "label_drift_ks" not in drift_columns(
        "label_drift", rule, np.array([0, 1]), Distribution((0.0,), (1, 1)), ordered=False
    )
