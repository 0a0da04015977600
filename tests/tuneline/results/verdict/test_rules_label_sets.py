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
    ("predicted", "code", "words"),
    [(3.0, "too_many_labels", "3.00 labels on average"), (0.7, "too_few_labels", "0.70 labels on average")],
)
def test_too_many_or_too_few_labels_stop_a_good(predicted, code, words):
    (good,) = judge_run(RunFacts(GOOD_SETS, params=with_thresholds("f1")))
    assert good.severity == "good"
    fault = {"predicted_labels_per_row": predicted}
    finding, comparison = judge_run(RunFacts(GOOD_SETS | fault, params=with_thresholds("f1")))
    assert (finding.code, finding.severity) == (code, "bad")
    assert words in finding.sentence
    assert comparison.severity == "note"
    assert "Good" not in comparison.sentence


@pytest.mark.parametrize(
    ("params", "advice"),
    [
        (with_thresholds("f1"), "Ask for precision (train.thresholds.choose=precision"),
        (with_thresholds("half"), "First choose the thresholds on validation"),
        (with_thresholds("precision", 0.6), "Raise train.thresholds.target (it was 0.6)"),
    ],
)
def test_advice_on_too_many_labels_is_a_value_that_is_not_set_yet(params, advice):
    finding = judged(GOOD_SETS | {"predicted_labels_per_row": 3.0}, params)["too_many_labels"]
    assert advice in finding.advice
