"""Checks of data whose rows have any number of labels: each violation fails the check of the same name."""

import json

import pytest

from stages.validate.tables import derive_tables
from tests.stages.validate.conftest import failed_result
from tests.stages.validate.data import TOPICS, Data, good_sets
from tuneline.reports.checks import Profile
from tuneline.tasks import Multilabel

BILLING, DELIVERY, REFUND, URGENT = range(len(TOPICS))


@pytest.fixture
def sets() -> Data:
    """Return valid texts with sets of labels."""
    return good_sets()


def failed_checks(results) -> set[str]:
    return {result.check for result in results.record.checks if result.status != "passed"}


def tables_of(data: Data, split: str):
    return data.raw[split], data.tokenized[split]


def change(data: Data, split: str, changed) -> None:
    """Replace the labels of each row of a split."""
    for table in tables_of(data, split):
        table["labels"] = [sorted(changed(row, set(labels))) for row, labels in enumerate(table["labels"])]


def test_valid_sets_pass_every_check_and_all_but_the_promoted_ones_run(sets, check):
    """A row without any label is valid, too."""
    assert [] in sets.raw["train"]["labels"]
    results = check(sets)
    assert failed_checks(results) == set()
    assert set(results.record.not_run) == {
        "blank_in_pair",
        "promoted_rows",
        "promoted_labels",
        "promoted_lengths",
        "promoted_vocabulary",
    }


def test_cardinality_density_and_rows_without_label_are_metrics(sets, check):
    labels = sets.raw["test"]["labels"]
    metrics = check(sets, only=["label_set"]).record.metrics
    cardinality = sum(map(len, labels)) / len(labels)
    assert metrics["test_labels_per_row"] == pytest.approx(cardinality, abs=1e-6)
    assert metrics["test_label_density"] == pytest.approx(cardinality / len(TOPICS), abs=1e-6)
    assert metrics["test_rows_without_label"] == pytest.approx(labels.count([]) / len(labels), abs=1e-6)


def test_label_that_is_none_fails_label_set(sets, check):
    for table in tables_of(sets, "train"):
        table["labels"][3:6] = [4], [0, 4], [-1]
    result = failed_result(check(sets, only=["label_set"]))
    assert (result.check, result.failing) == ("label_set", 3)
    assert {row.number for row in result.worst} == {3, 4, 5}


def test_missing_set_fails_missing_values(sets, check):
    for table in tables_of(sets, "train"):
        table["labels"][3] = None
    assert "missing_values" in failed_checks(check(sets, only=["missing_values"]))


def test_label_without_a_row_of_train_is_absent(sets, check):
    change(sets, "train", lambda _, labels: labels - {URGENT})
    (result,) = check(sets, only=["absent_classes"]).record.checks
    assert (result.status, result.split, result.found) == ("failed", "train", "1 label without a row")


def test_rare_label_lists_its_rows_with_their_labels(sets, check):
    rows = (5, 9)
    change(sets, "train", lambda row, labels: (labels - {URGENT}) | ({URGENT} if row in rows else set()))
    result = failed_result(check(sets, only=["rare_classes"]))
    assert result.status == "failed"
    assert {row.number for row in result.worst} == set(rows)
    assert all("'urgent'" in row.values["class"] for row in result.worst)
    assert result.notes[0].startswith("class 'urgent': 2 rows in train")


def test_rows_of_a_label_with_a_faulty_name_are_found(sets, check):
    sets.labels = Multilabel(("billing", "delivery", "refund", "Refund."))
    results = check(sets, only=["class_names"])
    assert "class_names" in failed_checks(results)
    faulty = sum(URGENT in labels for labels in sets.raw["train"]["labels"])
    assert next(entry for entry in results.record.checks if entry.check == "class_names").failing == faulty


@pytest.mark.parametrize("labels", [{BILLING, URGENT}, set()])
def test_same_labels_of_nearly_all_rows_fail_class_balance(sets, check, labels):
    change(sets, "validation", lambda row, before: before if row < 12 else labels)
    result = next(
        entry for entry in check(sets, only=["class_balance"]).record.checks if entry.split == "validation"
    )
    assert result.status == "failed"
    expected = "have no label" if not labels else "label is 'billing'"
    assert expected in result.notes[0]


def test_labels_that_always_occur_together_are_named(sets, check):
    change(sets, "train", lambda _, labels: labels | {URGENT} if REFUND in labels else labels - {URGENT})
    (result, *_) = check(sets, only=["inseparable_labels"]).record.checks
    assert (result.status, result.split) == ("failed", "train")
    refunds = sum(REFUND in labels for labels in sets.raw["train"]["labels"])
    assert result.notes == [
        f"labels 'refund' and 'urgent': {refunds} of the {refunds} rows with either have both"
    ]


def test_label_that_implies_another_one_is_no_finding(sets, check):
    change(sets, "train", lambda _, labels: labels | {BILLING} if REFUND in labels else labels)
    assert "inseparable_labels" not in failed_checks(check(sets, only=["inseparable_labels"]))


def copy_rows(data: Data, number: int, changed) -> None:
    for row in range(number):
        data.raw["train"]["text"][300 + row] = data.raw["train"]["text"][row]
        data.raw["train"]["labels"][row] = [BILLING, DELIVERY]
        data.raw["train"]["labels"][300 + row] = changed
    data.tokenize()


def test_same_text_with_another_set_conflicts_and_with_the_same_set_it_is_a_copy(sets, check):
    copy_rows(sets, 7, [BILLING])
    results = check(sets)
    assert failed_checks(results) == {"conflicting_labels"}
    assert failed_result(results).failing == 14


def test_same_text_with_the_same_set_does_not_conflict(sets, check):
    copy_rows(sets, 40, [BILLING, DELIVERY])
    assert failed_checks(check(sets, only=["duplicates", "conflicting_labels"])) == {"duplicates"}


def test_tokenized_labels_of_another_row_fail_token_labels(sets, check):
    labels = sets.tokenized["test"]["labels"]
    labels[0] = [BILLING] if labels[0] == [DELIVERY] else [DELIVERY]
    result = failed_result(check(sets))
    assert (result.check, result.failing) == ("token_labels", 1)


def test_shuffled_sets_cannot_be_learnt(sets, check):
    for split in sets.raw:
        for table in tables_of(sets, split):
            table["labels"] = table["labels"][1:] + table["labels"][:1]
    assert failed_checks(check(sets)) == {"learnable_labels"}


def test_word_of_one_label_is_revealing_beside_other_labels(sets, check):
    for table in sets.raw.values():
        table["text"] = [
            f"{text} prefix" if URGENT in labels else text
            for text, labels in zip(table["text"], table["labels"], strict=True)
        ]
    sets.tokenize()
    results = check(sets, only=["revealing_words"])
    assert "revealing_words" in failed_checks(results)
    notes = next(entry.notes for entry in results.record.checks if entry.check == "revealing_words")
    assert notes[0].startswith("“prefix")
    assert '"urgent"' in notes[0]


def test_length_of_one_label_is_revealing(sets, check):
    for table in sets.raw.values():
        table["text"] = [
            f"{text} {text} {text}" if URGENT in labels else text
            for text, labels in zip(table["text"], table["labels"], strict=True)
        ]
    sets.tokenize()
    results = check(sets, only=["revealing_length"])
    assert "revealing_length" in failed_checks(results)
    notes = next(entry.notes for entry in results.record.checks if entry.check == "revealing_length")
    assert '"urgent"' in notes[0]


def test_label_that_is_more_frequent_than_in_train_has_drifted_and_is_named(sets, check):
    change(sets, "test", lambda row, labels: labels | {URGENT} if row % 3 else labels)
    results = check(sets)
    assert failed_checks(results) == {"label_drift"}
    result = failed_result(results)
    assert result.split == "test"
    (note,) = result.notes
    assert note.startswith("label 'urgent': ")


def test_rows_that_lost_all_labels_have_drifted(sets, check):
    """The labels that are left are distributed as in train."""
    change(sets, "validation", lambda row, labels: set() if row % 10 else labels)
    assert "label_drift" in failed_checks(check(sets, only=["label_drift"]))


def test_profile_tells_the_kind_of_task_and_compares_labels_by_name(sets, check, tmp_path):
    derived = derive_tables(sets.params, sets.write(tmp_path / "promoted"), None)
    profile = Profile.of(derived.labels, derived.profiles)
    profile.write(tmp_path / "profile.json")
    assert json.loads((tmp_path / "profile.json").read_text())["task_kind"] == "multilabel"
    promoted = Profile.read_if_exists(tmp_path / "profile.json")
    assert promoted.task == Multilabel(TOPICS)
    assert promoted.train.labels.counts == tuple(
        sum(topic in labels for labels in sets.raw["train"]["labels"]) for topic in range(len(TOPICS))
    )
    sets.labels = Multilabel(("billing", "delivery", "refund", "new"))
    results = check(sets, promoted, only=["promoted_labels"])
    assert "promoted_labels" in failed_checks(results)
    note = next(entry.notes for entry in results.record.checks if entry.check == "promoted_labels")[0]
    assert note.startswith("label 'new': ")
    assert "0 % in the reference" in note


def test_unlabelled_test_split_passes_where_it_is_not_reported(sets, check):
    def report_on_validation(values):
        values["evaluate"]["split"] = "validation"
        values["train"]["keep"] = "last"

    sets.set_params(report_on_validation)
    for table in tables_of(sets, "test"):
        table["labels"] = [[-1]] * len(table["labels"])
    assert failed_checks(check(sets)) == set()
