import numpy as np
import pytest


def test_failed_warning_is_not_an_error(data, check):
    data.raw["train"]["two"][3] += "\x07"
    results = check(data, only=["control_characters"])
    assert (len(results.warnings), len(results.errors)) == (1, 0)


def test_severity_of_a_check_is_a_parameter(data, check):
    data.set_params(lambda values: values["validate"]["control_characters"].update(severity="error"))
    data.raw["train"]["two"][3] += "\x07"
    results = check(data, only=["control_characters"])
    assert (len(results.warnings), len(results.errors)) == (0, 1)


@pytest.mark.parametrize(("split", "passes"), [("validation", True), ("test", False), ("train", False)])
def test_split_without_labels_fails_if_it_is_trained_or_reported_on(split, passes, data, check):
    for table in (data.raw[split], data.tokenized[split]):
        table["labels"] = [-1] * len(table["labels"])
    failing = {result.check for result in check(data, only=["label_set"]).errors}
    assert ("label_set" not in failing) is passes


def test_partly_labelled_split_fails(data, check):
    for table in (data.raw["validation"], data.tokenized["validation"]):
        table["labels"][:10] = [-1] * 10
    assert "label_set" in {result.check for result in check(data, only=["label_set"]).errors}


def test_metrics_are_flat_finite_and_per_split(data, check):
    metrics = check(data).record.metrics
    assert metrics["train_rows"] == 200
    assert metrics["test_leakage_rate"] == 0
    assert metrics["validation_near_duplicate_rate"] == 0
    assert metrics["train_imbalance"] == pytest.approx(0.5, abs=0.02)
    assert 0 < metrics["test_vocabulary_overlap"] <= 1
    assert all(np.isfinite(value) for value in metrics.values())
