"""The rules on rows that are not independent, and on rows that training has seen."""

import pytest

from tuneline.results.verdict.facts import RunFacts
from tuneline.results.verdict.rules import judge_run, leaks

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


def test_too_few_distinct_texts_are_not_judged():
    finding = first(METRICS | {"clusters": 7})
    assert (finding.code, finding.severity) == ("undecided_few", "bad")
    assert finding.advice == ("test_on_more",)


def test_rows_without_the_leaked_ones_decide_where_most_are_leaked():
    finding = first(LEAKED)
    assert finding.code == "not_above_simple_model"
    assert finding.of_clean_rows
    assert (finding.numbers["best"].model, finding.numbers["best"].simple) == (0.45, 0.5)


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
    assert findings[0].advice == ("divide",)


LEAKS = {
    "accuracy": 0.823,
    "accuracy_without_leaks": 0.792,
    "accuracy_without_leaks_low": 0.771,
    "accuracy_without_leaks_high": 0.813,
    "accuracy_from_leaks_low": 0.026,
    "accuracy_from_leaks_high": 0.035,
    "leaked_rows": 271,
    "rows": 1725,
}


@pytest.mark.parametrize(
    ("low", "high", "code", "severity"),
    [
        (0.01, 0.02, "leaks_raise", "warning"),
        (-0.01, 0.02, "leaks_unclear", "note"),
        (-0.02, -0.01, "leaks_lower", "note"),
    ],
)
def test_effect_of_leaked_rows_follows_the_interval(low, high, code, severity):
    finding = leaks(RunFacts(LEAKS | {"accuracy_from_leaks_low": low, "accuracy_from_leaks_high": high}))
    assert (finding.code, finding.severity) == (code, severity)
    assert finding.advice == (("trust_clean_metric",) if code == "leaks_raise" else ())
    assert (finding.numbers["leaked"], finding.numbers["gain"]) == (271, 0.031)
