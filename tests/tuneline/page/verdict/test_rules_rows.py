"""The rules on rows that are not independent, and on rows that training has seen."""

import pytest

from tuneline.page.verdict.facts import RunFacts
from tuneline.page.verdict.rules import judge_run

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


def test_too_few_distinct_texts_are_not_judged():
    finding = first(METRICS | {"clusters": 7})
    assert (finding.code, finding.severity) == ("undecided_few", "bad")
    assert "Test on more independent rows" in finding.advice


def test_rows_without_the_leaked_ones_decide_where_most_are_leaked():
    finding = first(LEAKED)
    assert finding.code == "not_above_simple_model"
    assert finding.sentence.startswith("Without rows that repeat or resemble")
    assert "0.450 against 0.500" in finding.sentence


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
    assert [finding.code for finding in findings] == ["undecided_leaked"]
    assert "data.split.by" in findings[0].advice


def test_rows_that_come_again_count_where_rows_are_divided_by_time():
    by_time = {"data.split": {"by_time": "day"}}
    good, leaks = judge_run(RunFacts(LEAKED, params=by_time))
    assert (good.code, good.severity) == ("good", "good")
    assert (leaks.code, leaks.severity) == ("leaks", "note")
    assert "without such rows: 0.450" in leaks.sentence


LEAKS = {
    "accuracy": 0.823,
    "accuracy_low": 0.8,
    "accuracy_high": 0.84,
    "accuracy_without_leaks": 0.792,
    "accuracy_without_leaks_low": 0.771,
    "accuracy_without_leaks_high": 0.813,
    "leaked_rows": 271,
    "rows": 1725,
}


@pytest.mark.parametrize(("accuracy", "severity"), [(0.823, "warning"), (0.81, "note")])
def test_leaked_rows_are_a_warning_where_the_metric_of_all_rows_is_above_the_interval(accuracy, severity):
    (finding,) = judge_run(RunFacts(LEAKS | {"accuracy": accuracy}))
    assert (finding.code, finding.severity) == ("leaks", severity)
    assert "271 of 1,725 rows (15.7%)" in finding.sentence
    assert "0.792 (95 % interval 0.771 to 0.813)" in finding.sentence
    assert bool(finding.advice) == (severity == "warning")
