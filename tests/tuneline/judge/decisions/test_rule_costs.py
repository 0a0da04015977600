"""The answer that costs least, or none."""

import numpy as np

from tuneline.judge.decisions.rule import CostRule

NAMES = ("fraud", "ok")


def rule(abstain: float | None = None) -> CostRule:
    return CostRule.of({"fraud": {"ok": 50.0}, "ok": {"fraud": 1.0}}, abstain, NAMES)


def test_dear_error_is_avoided_although_it_is_improbable():
    probabilities = np.array([[0.01, 0.99], [0.03, 0.97], [0.9, 0.1]])
    assert rule().answers(probabilities).tolist() == [1, 0, 0]
    assert not rule().abstains(probabilities).any()


def test_no_answer_where_every_answer_costs_more():
    probabilities = np.array([[0.001, 0.999], [0.02, 0.98], [0.9, 0.1]])
    # expected costs of the best answer: 0.05, 0.98, 0.1
    assert rule(abstain=0.3).abstains(probabilities).tolist() == [False, True, False]


def test_costs_of_rows_are_those_of_the_table():
    labels = np.array([0, 1, 1])
    probabilities = np.array([[0.001, 0.999], [0.02, 0.98], [0.9, 0.1]])
    assert rule().plain_costs(probabilities, labels).tolist() == [50, 0, 1]
    assert rule(abstain=0.3).costs(probabilities, labels).tolist() == [50, 0.3, 1]


def test_rule_costs_least_of_all_answers_if_probabilities_are_true():
    random = np.random.default_rng(0)
    probabilities = random.dirichlet([1, 1], 50_000)
    labels = (random.random(50_000) > probabilities[:, 0]).astype(np.int64)
    least = rule(abstain=0.4).costs(probabilities, labels).mean()
    for threshold in np.linspace(0, 1, 21):
        answers = (probabilities[:, 0] < threshold).astype(np.int64)
        assert least < rule().matrix[labels, answers].mean() + 0.01
