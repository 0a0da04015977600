import pytest

from stages.validate import FETCH_REFERENCE
from tests.tuneline.checks.data import good_sets
from tuneline.checks.analysis.distributions import Distribution
from tuneline.checks.results import Profile
from tuneline.checks.tables import derive_tables, labels_as
from tuneline.core.runtime.errors import DataError
from tuneline.model.tasks import Classification, Multilabel, Regression


@pytest.fixture
def profile(data, tmp_path) -> Profile:
    derived = derive_tables(data.params, data.write(tmp_path / "data"), None)
    return Profile(version=1, labels=derived.labels.names, splits=derived.profiles)


def written(profile: Profile, folder):
    path = folder / "profile.json"
    profile.write(path)
    return path


def test_profile_contains_no_text_of_the_data(profile, data, tmp_path):
    text = written(profile, tmp_path).read_text()
    assert not any(word in text for word in data.raw["train"]["one"][0].split())
    assert len(text) < 50_000


def test_labels_are_compared_by_name_and_not_by_id(profile):
    """The promoted data has the classes "no", "yes", "perhaps"; the other schemas reorder, remove and add
    classes."""
    before = profile.splits["train"].labels
    assert before == Distribution((0.0, 1.0), (98, 98, 4)) or sum(before.counts) == 200
    no, yes, perhaps = before.counts
    assert labels_as(profile, Classification(("perhaps", "no", "yes")), "train") == Distribution(
        (0.0, 1.0), (perhaps, no, yes)
    )
    assert labels_as(profile, Classification(("yes", "new")), "train") == Distribution(
        (0.0, 1.0), (yes, 0, no + perhaps)
    )


def test_label_of_the_promoted_data_that_left_has_drifted(check, tmp_path):
    data = good_sets()
    derived = derive_tables(data.params, data.write(tmp_path / "data"), None)
    promoted = Profile.of(derived.labels, derived.profiles)
    data.labels = Multilabel(data.labels.class_names[1:])
    for split in (*data.raw.values(), *data.tokenized.values()):
        split["labels"] = [[label - 1 for label in labels if label] for labels in split["labels"]]
    results = check(data, promoted, only=["promoted_labels"])
    failed = {entry.split: entry.found for entry in results.record.checks if entry.status == "failed"}
    assert set(failed) == {"train", "validation", "test"}
    assert all("labels that this data lacks" in found for found in failed.values())


def test_labels_of_another_task_are_not_compared(profile):
    assert labels_as(profile, Regression(), "train") is None


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"version": 0}',
        '{"version": 1, "labels": null, "splits": {"train": {}}}',
    ],
)
def test_invalid_profile_is_refused_with_a_hint(text, tmp_path):
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"profile\.json: ") as error:
        Profile.read(path, FETCH_REFERENCE)
    assert FETCH_REFERENCE in str(error.value)
