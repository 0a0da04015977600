"""A promise is broken as seldom as it says, and refused where rows do not show that it holds."""

import numpy as np
import pytest
from mapie.risk_control._base_controller import ltt_procedure

from tuneline.judge.decisions.abstention import (
    NoPromiseError,
    fewest_rows,
    first_tested,
    promised_abstention,
)
from tuneline.judge.decisions.evidence import Evidence, JudgedAnswers


def answers(random: np.random.Generator, rows: int, mislabelled: float = 0.0) -> JudgedAnswers:
    """Return calibrated answers, 13 % of them wrong, and more where labels are wrong."""
    confidence = random.beta(3, 0.45, rows)
    right = (random.random(rows) < confidence) & (random.random(rows) >= mislabelled)
    return JudgedAnswers(np.zeros(rows, np.int32), confidence, right)


@pytest.mark.parametrize(("risk", "mislabelled"), [(0.02, 0.0), (0.05, 0.0), (0.1, 0.03)])
def test_promise_is_broken_in_at_most_five_percent(risk, mislabelled):
    random = np.random.default_rng(2)
    population = answers(random, 200_000, mislabelled)
    promised = broken = 0
    for _ in range(400):
        evidence = Evidence(answers(random, 1000, mislabelled), answers(random, 400, mislabelled))
        try:
            abstention = promised_abstention(evidence, risk, 0.95)
        except NoPromiseError:
            continue
        promised += 1
        answered = population.confidence > abstention.threshold
        broken += np.mean(~population.right[answered]) > risk
    assert promised > 100, "a promise is possible in most draws"
    assert broken <= 0.05 * 400


@pytest.mark.parametrize("risk", [0.02, 0.05, 0.1])
def test_threshold_is_the_one_of_a_published_implementation(risk):
    random = np.random.default_rng(3)
    evidence = Evidence(answers(random, 1000), answers(random, 400))
    ours = promised_abstention(evidence, risk, 0.95)

    # MAPIE's fixed sequence over the same thresholds
    rows = evidence.promising
    start = first_tested(evidence.choosing, 1000, risk, 0.95)
    thresholds = np.sort(rows.confidence)[::-1][start:]
    answered = np.array([np.sum(rows.confidence > one) for one in thresholds])
    wrong = np.array([np.sum(~rows.right[rows.confidence > one]) for one in thresholds])
    (passed,), _ = ltt_procedure(
        (wrong / answered - 1e-12)[np.newaxis],  # it rounds the number of wrong answers up
        np.array([[risk]]),
        0.05,
        answered[np.newaxis],
        binary=True,
        fwer_method="split_fixed_sequence",
    )
    assert ours.threshold == thresholds[max(passed)]
    assert (ours.answered, ours.wrong) == (answered[max(passed)], wrong[max(passed)])


@pytest.mark.parametrize("start", range(0, 1000, 37))
def test_first_test_is_the_one_that_other_rows_expect_to_pass(start):
    """Where the tests start depends on the number of the rows that promise, and not on what they show."""
    random = np.random.default_rng(start)
    choosing = answers(random, 400, mislabelled=0.03)
    first = first_tested(choosing, 1000, 0.1, 0.95)
    assert fewest_rows(0.1, 0.95) < first <= 1000, "of the few surest answers, some are mislabelled"


def test_promise_names_the_rows_that_are_missing():
    random = np.random.default_rng(0)
    certain = JudgedAnswers(np.zeros(149, np.int32), random.random(149), np.ones(149, bool))
    assert fewest_rows(0.02, 0.95) == 149
    assert promised_abstention(Evidence(certain, certain), 0.02, 0.95).coverage == 1.0
    few = certain.take(np.arange(80))
    message = "2 % at 95 % needs at least 149 answered rows without an error; there are 80"
    with pytest.raises(NoPromiseError, match=message):
        promised_abstention(Evidence(few, few), 0.02, 0.95)


def test_model_that_errs_as_often_where_it_is_sure_promises_nothing():
    random = np.random.default_rng(0)
    rows = JudgedAnswers(np.zeros(500, np.int32), random.random(500), random.random(500) < 0.8)
    with pytest.raises(NoPromiseError, match="rows that the model is surest of"):
        promised_abstention(Evidence(rows, rows), 0.05, 0.95)


def test_equal_confidences_are_answered_together():
    confidence = np.repeat([0.9, 0.5], 200)
    right = np.concatenate([np.ones(200, bool), np.zeros(200, bool)])
    rows = JudgedAnswers(np.zeros(400, np.int32), confidence, right)
    abstention = promised_abstention(Evidence(rows, rows), 0.02, 0.95)
    assert (abstention.answered, abstention.wrong) == (200, 0)
    assert abstention.threshold == 0.5
