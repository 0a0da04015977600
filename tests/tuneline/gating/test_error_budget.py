import numpy as np
import pytest
from scipy.stats import binom

from tuneline.gating.error_budget import YEAR, ErrorBudget, GateEntry

NOW = 1_800_000_000.0


def entry(budget: ErrorBudget, time: float, rows_hash: str = "a", **changes) -> GateEntry:
    values = {
        "time": time,
        "split": "test",
        "rows_hash": rows_hash,
        "rows": 1000,
        "independent": 1000,
        "candidate": f"model-{time}",
        "production": "v0.1.0",
        "number": budget.number,
        "level": budget.cost,
        "spent": budget.spent + budget.cost,
        "left": budget.left - budget.cost,
        "discordant": 60,
        "difference": 0.01,
        "outcome": "rejected",
    }
    return GateEntry.model_validate(values | changes)


def budget_of(history: list[GateEntry], rows_hash: str = "a", now: float = NOW) -> ErrorBudget:
    return ErrorBudget.of(history, rows_hash, now, error_rate=0.05, candidates=365)


def judged(number: int, until: float = NOW) -> list[GateEntry]:
    """Judge a candidate every hour."""
    history: list[GateEntry] = []
    for hour in range(number):
        time = until - (number - hour) * 3600
        history.append(entry(budget_of(history, now=time), time))
    return history


def test_levels_of_a_year_sum_to_its_error_rate():
    history = judged(400)
    assert sum(one.level for one in history) == pytest.approx(0.05)
    assert [one.level > 0 for one in history] == [True] * 365 + [False] * 35
    assert history[364].left == pytest.approx(0, abs=1e-9)
    assert (history[10].number, history[10].spent) == (11, pytest.approx(11 * 0.05 / 365))


def test_budget_is_renewed_by_another_split_and_when_a_year_has_passed():
    history = judged(365)
    assert budget_of(history).level == 0
    assert budget_of(history, "b").level == pytest.approx(0.05 / 365)
    assert budget_of(history, "b").spent == 0
    assert budget_of(history, now=history[0].time + YEAR).level == pytest.approx(0.05 / 365)


def test_same_two_models_on_the_same_rows_use_up_nothing_twice():
    history = judged(3)
    again = budget_of(history).of_pair(history[1].candidate, "v0.1.0")
    assert (again.level, again.cost) == (history[1].level, 0)
    assert budget_of(history).of_pair(history[1].candidate, "v0.2.0").cost > 0
    assert budget_of(history).of_pair("", "v0.1.0").cost > 0


def test_year_of_candidates_that_are_no_better_seldom_promotes_one_even_if_nights_are_independent():
    """The worst case for the sum of levels: 365 independent tests."""
    level = budget_of([]).level
    wins = np.random.default_rng(0).binomial(60, 0.5, size=(2_000, 365))
    promoted = (binom.sf(wins - 1, 60, 0.5) <= level).any(axis=1).mean()
    assert promoted <= 0.05
    at_five_percent = (binom.sf(wins - 1, 60, 0.5) <= 0.025).any(axis=1).mean()
    assert at_five_percent > 0.9
