"""The verdict on rows that are not independent, and on rows that training has seen."""

import pytest

from tuneline.results.verdict import RunFacts, judge_run

METRICS = {
    "rows": 280,
    "clusters": 51,
    "accuracy": 0.7,
    "accuracy_low": 0.51,
    "accuracy_high": 0.82,
    "majority_accuracy": 0.2,
    "accuracy_over_majority_low": 0.3,
    "accuracy_over_majority_high": 0.6,
    "tfidf_accuracy": 0.4,
    "accuracy_over_tfidf_low": 0.1,
    "accuracy_over_tfidf_high": 0.4,
}
LEAKED = METRICS | {
    "leaked_rows": 200,
    "accuracy_without_leaks": 0.45,
    "accuracy_without_leaks_low": 0.35,
    "accuracy_without_leaks_high": 0.55,
    "accuracy_from_leaks_low": 0.1,
    "accuracy_from_leaks_high": 0.4,
    "clusters_without_leaks": 30,
    "majority_accuracy_without_leaks": 0.3,
    "accuracy_over_majority_low_without_leaks": 0.02,
    "accuracy_over_majority_high_without_leaks": 0.3,
    "tfidf_accuracy_without_leaks": 0.5,
    "accuracy_over_tfidf_low_without_leaks": -0.2,
    "accuracy_over_tfidf_high_without_leaks": 0.1,
}


def first(evaluated, params=None):
    return judge_run(RunFacts(evaluated, params=params or {}))[0]


def test_rows_are_counted_with_their_distinct_texts():
    assert "on 280 rows, 51 distinct texts, clearly above" in first(METRICS).sentence


def test_rows_are_counted_with_their_groups():
    sentence = first(METRICS, {"data.split": {"by": "customer"}}).sentence
    assert "on 280 rows, 51 groups" in sentence


@pytest.mark.parametrize("changes", [{"clusters": 280}, {}])
def test_rows_on_their_own_are_counted_as_they_are(changes):
    evaluated = {key: value for key, value in METRICS.items() if key != "clusters"} | changes
    assert "on 280 rows, clearly above" in first(evaluated).sentence


def test_few_rows_are_few_distinct_texts():
    unclear = METRICS | {"accuracy_over_tfidf_low": -0.1, "tfidf_accuracy": 0.65, "rows": 20_000}
    findings = {finding.name: finding for finding in judge_run(RunFacts(unclear))}
    assert "51 distinct texts show only differences" in findings["few rows"].sentence
    assert findings["few rows"].advice.endswith("distinct texts.")


def test_too_few_distinct_texts_are_not_judged():
    finding = first(METRICS | {"clusters": 7})
    assert finding.level == "bad"
    assert "280 rows, 7 distinct texts, too few" in finding.sentence


def test_rows_without_the_leaked_ones_decide_where_most_are_leaked():
    finding = first(LEAKED)
    assert finding.name == "not above a simple model"
    assert "Without rows that repeat or resemble a row of an earlier split" in finding.sentence
    assert "0.450 against 0.500" in finding.sentence


def test_good_model_on_rows_that_are_not_leaked_stays_good():
    finding = first(LEAKED | {"accuracy_over_tfidf_low_without_leaks": 0.01})
    assert finding.level == "good"
    assert "0.450 (95 % interval 0.350 to 0.550) on 80 rows, 30 distinct texts" in finding.sentence


@pytest.mark.parametrize(
    "changes",
    [
        {"leaked_rows": 280},
        {"clusters_without_leaks": 3},
    ],
)
@pytest.mark.parametrize("accuracy", [0.7, 1.0])
def test_model_is_not_good_on_rows_that_training_has_seen(changes, accuracy):
    evaluated = LEAKED | changes | {"accuracy": accuracy}
    if changes.get("leaked_rows") == 280:
        evaluated = {key: value for key, value in evaluated.items() if "without_leaks" not in key}
    findings = judge_run(RunFacts(evaluated))
    assert findings[0].name == "undecided"
    assert "data.split.by" in findings[0].advice
    said = " ".join(f"{finding.sentence} {finding.advice}" for finding in findings)
    assert "Good" not in said
    assert "Nothing is left to gain" not in said


def test_simple_model_without_an_error_on_leaked_rows_is_no_advice():
    perfect = {key: 1.0 if key.endswith("accuracy") else value for key, value in METRICS.items()}
    perfect |= {"leaked_rows": 280, "accuracy_over_tfidf_low": 0.0, "accuracy_over_tfidf_high": 0.0}
    assert first(perfect).name == "undecided"


def test_curve_on_leaked_rows_is_no_reason_to_train_longer():
    curve = {"step": [10, 20, 30], "accuracy": [0.5, 0.7, 0.9], "loss": [1.0, 0.7, 0.4]}
    improving = judge_run(RunFacts(METRICS, validation=curve))
    assert "still improving" in {finding.name for finding in improving}
    leaked = judge_run(RunFacts(METRICS | {"leaked_rows": 280}, validation=curve))
    assert {finding.name for finding in leaked} == {"undecided"}
