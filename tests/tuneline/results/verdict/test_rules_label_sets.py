import pytest

from tests.tuneline.results.verdict.runs import SETS, judged, with_thresholds
from tuneline.results.verdict.facts import RunFacts
from tuneline.results.verdict.rules import judge_run

GOOD_SETS = SETS | {
    "labels_per_row": 1.5,
    "predicted_labels_per_row": 1.6,
    "micro_f1": 0.72,
    "tfidf_micro_f1": 0.7,
    "majority_micro_f1": 0.2,
    "subset_accuracy": 0.5,
    "majority_subset_accuracy": 0.1,
}
"""Several labels per row without a fault, with what macro F1 hides."""


@pytest.mark.parametrize(
    ("fault", "code", "numbers"),
    [
        ({"predicted_labels_per_row": 3.0}, "too_many_labels", {"predicted": 3.0, "actual": 1.5}),
        ({"predicted_labels_per_row": 0.7}, "too_few_labels", {"predicted": 0.7}),
        ({"micro_f1": 0.383}, "worse_micro_f1", {"model": "tfidf", "value": 0.383, "simple": 0.7}),
        ({"subset_accuracy": 0.05}, "not_above_one_set", {"value": 0.05, "majority": 0.1}),
    ],
)
def test_what_macro_f1_hides_of_several_labels_stops_a_good(fault, code, numbers):
    (good,) = judge_run(RunFacts(GOOD_SETS, params=with_thresholds("f1")))
    assert good.severity == "good"
    finding, comparison = judge_run(RunFacts(GOOD_SETS | fault, params=with_thresholds("f1")))
    assert (finding.code, finding.severity) == (code, "bad")
    assert numbers.items() <= finding.numbers.items()
    assert finding.advice
    assert (comparison.code, comparison.severity) == ("above_simple_models", "note")


@pytest.mark.parametrize(
    ("params", "advice"),
    [
        (with_thresholds("f1"), "ask_for_measure"),
        (with_thresholds("half"), "choose_thresholds_first"),
        (with_thresholds("precision", 0.6), "raise_target"),
    ],
)
def test_advice_on_too_many_labels_is_a_value_that_is_not_set_yet(params, advice):
    finding = judged(GOOD_SETS | {"predicted_labels_per_row": 3.0}, params)["too_many_labels"]
    assert finding.advice == (advice,)
    assert finding.numbers["measure"] == "precision"
