import pytest

from tests.tuneline.page.verdict.runs import SETS, judged, with_thresholds
from tuneline.page.verdict.facts import RunFacts
from tuneline.page.verdict.rules import judge_run

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


@pytest.mark.parametrize(("predicted", "measure"), [(3.0, "precision"), (0.7, "recall")])
def test_too_many_or_too_few_labels_stop_a_good(predicted, measure):
    (good,) = judge_run(RunFacts(GOOD_SETS, params=with_thresholds("f1")))
    assert good.severity == "good"
    fault = {"predicted_labels_per_row": predicted}
    finding, comparison = judge_run(RunFacts(GOOD_SETS | fault, params=with_thresholds("f1")))
    assert (finding.code, finding.severity) == ("labels_per_row", "bad")
    assert f"{predicted:.2f} labels on average" in finding.sentence
    assert f"the lowest {measure}" in finding.advice
    assert comparison.severity == "note"
    assert "Good" not in comparison.sentence


@pytest.mark.parametrize("choose", ["precision", "recall"])
def test_labels_that_a_target_asks_for_are_no_fault(choose):
    evaluated = GOOD_SETS | {"predicted_labels_per_row": 3.0}
    assert "labels_per_row" not in judged(evaluated, with_thresholds(choose, 0.6))
