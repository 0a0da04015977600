import numpy as np
import pyarrow as pa
import pytest

from tuneline.checks.analysis.distributions import Distribution
from tuneline.checks.results import Profile
from tuneline.core.settings import DriftLimits
from tuneline.core.stage.texts import EncodedWords, normalized, words
from tuneline.operations.drift import RowCounts, drift_criteria

NAMES = ["billing", "parcel", "login", "other"]
LIMITS = DriftLimits()


def texts(rows: int, length: int, seed: int, vocabulary: str = "w") -> list[str]:
    draw = np.random.default_rng(seed)
    return [
        " ".join(f"{vocabulary}{word}" for word in draw.integers(0, 50, length))
        for length in draw.poisson(length, rows) + 1
    ]


@pytest.fixture
def profile() -> Profile:
    known = texts(2000, 20, 0)
    hashes = [
        f"{value:016x}" for value in EncodedWords.of(words([normalized(pa.array(known))])).keys.tolist()
    ]
    train = {
        "rows": 2000,
        "labels": Distribution.of_classes(np.arange(2000) % 4, 4),
        "characters": Distribution.of_numbers(np.array([len(text) for text in known])),
        "words": {"hashes": hashes, "known": 1.0},
    }
    return Profile.model_validate({"version": 1, "labels": NAMES, "splits": {"train": train}})


def seen(profile: Profile, rows: list[str], labels: list[str] | None = None) -> RowCounts:
    return RowCounts.of(
        profile, [pa.array(rows)], pa.array(labels or [NAMES[row % 4] for row in range(len(rows))])
    )


def drifted(profile: Profile, new: RowCounts) -> list[str]:
    return [one.name for one in drift_criteria(profile, new, LIMITS) if not one.met]


def test_texts_like_training_do_not_drift(profile):
    assert drifted(profile, seen(profile, texts(1000, 20, seed=1))) == []


def test_longer_texts_drift(profile):
    assert drifted(profile, seen(profile, texts(1000, 40, seed=1))) == ["length of texts, PSI"]


def test_other_label_shares_drift(profile):
    assert drifted(profile, seen(profile, texts(1000, 20, seed=1), ["billing"] * 1000)) == [
        "predicted labels, PSI"
    ]


def test_other_words_drift(profile):
    assert "share of common words, of that in training" in drifted(
        profile, seen(profile, texts(1000, 20, 1, vocabulary="x"))
    )


def test_few_odd_rows_are_not_significant(profile):
    assert "predicted labels, PSI" not in drifted(
        profile, seen(profile, texts(3, 20, seed=1), ["billing"] * 3)
    )


def test_row_counts_of_parts_add_up(profile):
    rows = texts(300, 20, seed=1)
    parts = [seen(profile, rows[start : start + 100]) for start in (0, 100, 200)]
    whole = sum(parts[1:], parts[0])
    assert whole == seen(profile, rows)
    assert RowCounts.model_validate_json(whole.model_dump_json()) == whole
    assert (RowCounts.empty(profile) + whole).rows == 300
    assert whole.fits(profile)
    assert not whole.model_copy(update={"labels": [300]}).fits(profile)


def test_no_drift_in_100_samples_of_the_same_source(profile):
    """A hundred windows of the same kind of text: not one event."""
    assert not [
        seed for seed in range(100) if drifted(profile, seen(profile, texts(250, 20, seed=seed + 10)))
    ]
