import numpy as np
import pytest
from scipy.stats import binom

from tuneline.core.settings import PromotionPolicy
from tuneline.operations.promotion.error_budget import YEAR, ErrorBudget, GateEntry

NOW = 1_800_000_000.0
POLICY = PromotionPolicy()
PART = 0.04 / 365


def entry(budget: ErrorBudget, time: float, rows_hash: str = "a", **changes) -> GateEntry:
    values = {
        "time": time,
        "rows_hash": rows_hash,
        "candidate": f"model-{time}",
        "production": "v0.1.0",
        "level": budget.cost,
        "outcome": "rejected",
    }
    return GateEntry.model_validate(values | changes)


def budget_of(
    history: list[GateEntry], rows_hash: str = "a", now: float = NOW, validation_p: float | None = None
) -> ErrorBudget:
    return ErrorBudget.of_year(history, rows_hash, now, POLICY, validation_p)


def judged(number: int, until: float = NOW, validation_p: float | None = None) -> list[GateEntry]:
    """Judge a candidate every hour."""
    history: list[GateEntry] = []
    for hour in range(number):
        time = until - (number - hour) * 3600
        history.append(entry(budget_of(history, now=time, validation_p=validation_p), time))
    return history


def test_level_is_an_equal_part_by_the_p_value_on_validation():
    assert budget_of([]).level == pytest.approx(PART)
    assert budget_of([], validation_p=1.0).level == pytest.approx(PART / 4)
    assert budget_of([], validation_p=0.01).level == pytest.approx(25 * PART)
    for p_value in (1e-4, 1e-300, 0.0):
        assert budget_of([], validation_p=p_value).level == pytest.approx(0.04 / 5)


@pytest.mark.parametrize("validation_p", [None, 1.0, 0.3, 0.01, 0.0])
def test_levels_of_a_year_sum_to_its_error_rate_whatever_validation_says(validation_p):
    """Also on a split that changes every night."""
    history: list[GateEntry] = []
    for hour in range(1000):
        budget = budget_of(history, f"{hour}", validation_p=validation_p)
        history.append(entry(budget, NOW - (1000 - hour) * 3600, f"{hour}"))
    assert sum(one.level for one in history) <= 0.04
    if validation_p is not None and validation_p < 0.1:
        assert history[0].level > 10 * PART
        assert history[-1].level == 0


def test_budget_is_renewed_when_a_year_has_passed_and_not_by_another_split():
    history = judged(100, validation_p=0.0)
    assert budget_of(history).level == budget_of(history, "b").level == 0
    assert budget_of(history, "b", now=history[0].time + YEAR).level > 0
    assert budget_of(history, "b", now=NOW + YEAR).level == pytest.approx(PART)


def test_same_two_models_on_the_same_rows_use_up_nothing_twice():
    history = judged(3, validation_p=0.02)
    again = budget_of(history, validation_p=0.9).of_pair(history[1].candidate, "v0.1.0")
    assert (again.level, again.cost) == (history[1].level, 0)
    assert budget_of(history).of_pair(history[1].candidate, "v0.2.0").cost > 0
    assert budget_of(history, "b").of_pair(history[1].candidate, "v0.1.0").cost > 0
    assert budget_of(history).of_pair("", "v0.1.0").cost > 0


def test_year_of_candidates_that_are_no_better_seldom_promotes_one_even_if_nights_are_independent():
    """The worst case for the sum of levels: independent tests of candidates that validation was searched for.

    Its p-values are as small as if the best of 50 candidates of each night had been chosen by them.
    """
    draw = np.random.default_rng(0)
    years = 100
    wrong = 0
    for _ in range(years):
        p_values = draw.random((365, 50)).min(axis=1)
        history: list[GateEntry] = []
        for night, p_value in enumerate(p_values):
            history.append(entry(budget_of(history, validation_p=p_value), NOW - 366 + night))
        levels = np.array([one.level for one in history])
        wins = draw.binomial(60, 0.5, size=365)
        wrong += bool((binom.sf(wins - 1, 60, 0.5) <= levels).any())
    assert wrong / years <= 0.05
