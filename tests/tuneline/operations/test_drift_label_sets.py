"""Drift of predicted labels, where a row can have several: each is compared by itself."""

import numpy as np
import pyarrow as pa
import pytest

from tuneline.checks.analysis.distributions import Distribution
from tuneline.checks.results import Profile, SplitProfile, Words
from tuneline.core.settings import DriftLimits
from tuneline.model.tasks import Multilabel
from tuneline.operations.drift import RowCounts, drift_criteria

NAMES = ("billing", "parcel", "urgent")
LABEL = "predicted label"


@pytest.fixture
def profile() -> Profile:
    """The profile of 2,000 rows, of which 40 %, 30 % and 10 % have each label, and many have none."""
    train = SplitProfile(
        rows=2000,
        labels=Distribution((0.0, 1.0), (800, 600, 200)),
        characters=Distribution((10.0,), (2000, 0)),
        words=Words(hashes=[], known=0.0),
    )
    return Profile.of(Multilabel(NAMES), {"train": train})


def predictions(*shares: float, rows: int = 1000) -> list[list[str]]:
    """Return lists of names, of which each is in so large a share of the rows."""
    generator = np.random.default_rng(0)
    sets = generator.random((rows, len(NAMES))) < np.array(shares)
    return [np.array(NAMES)[row].tolist() for row in sets]


def measure(profile: Profile, predicted: pa.Array):
    """Return the measure of labels."""
    counts = RowCounts.of(profile, [pa.array(["a text"] * len(predicted))], predicted)
    (found,) = [one for one in drift_criteria(profile, counts, DriftLimits()) if one.name.startswith(LABEL)]
    return found


def test_labels_as_in_training_do_not_drift(profile):
    assert measure(profile, pa.array(predictions(0.4, 0.3, 0.1))).met


def test_label_that_drifted_is_named(profile):
    found = measure(profile, pa.array(predictions(0.4, 0.3, 0.5)))
    assert not found.met
    assert "urgent" in found.name


def test_rows_without_any_predicted_label_drift(profile):
    none = pa.array([[]] * 1000, pa.list_(pa.string()))
    assert not measure(profile, none).met
