import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, binomtest

from tuneline.gating.discordant_rows import PRIOR, Votes, fewest_discordant, log_e_value, votes_needed


def test_votes_count_clusters_and_not_rows():
    candidate = np.array([True, True, True, False, True, False])
    production = np.array([False, False, False, True, True, True])
    assert Votes.of(candidate, production) == Votes(3, 2)
    # six copies of one text, in which the candidate wins once more than it loses; then a draw of two rows
    assert Votes.of(candidate, production, np.array([7, 7, 7, 7, 7, 7])) == Votes(1, 0)
    assert Votes.of(candidate, production, np.array([1, 1, 2, 2, 3, 3])) == Votes(1, 1)


@pytest.mark.parametrize(
    ("discordant", "level"), [(60, 0.05 / 365), (30, 0.001), (13, 0.05 / 365), (200, 0.025)]
)
def test_needed_votes_are_the_fewest_with_which_the_exact_test_rejects(discordant, level):
    needed = votes_needed(discordant, level)
    assert binomtest(needed, discordant, alternative="greater").pvalue <= level
    assert binomtest(needed - 1, discordant, alternative="greater").pvalue > level


def test_no_votes_are_enough_below_the_fewest_discordant_rows():
    level = 0.05 / 365
    fewest = fewest_discordant(level)
    assert votes_needed(fewest, level) == fewest
    assert votes_needed(fewest - 1, level) is None


@pytest.mark.parametrize("votes", [Votes(0, 0), Votes(40, 20), Votes(20, 40), Votes(3, 0), Votes(900, 700)])
def test_e_value_is_the_mixture_of_likelihood_ratios(votes):
    def ratio(p: float) -> float:
        likelihood = votes.candidate * math.log(2 * p) + votes.production * math.log(2 * (1 - p))
        return float(2 * beta.pdf(p, PRIOR, PRIOR) * math.exp(likelihood))

    mixture, _ = quad(ratio, 0.5, 1 - 1e-12, limit=500)
    assert log_e_value(votes) == pytest.approx(math.log(mixture), abs=1e-6)


@pytest.mark.parametrize("votes", [Votes(40, 20), Votes(5, 9), Votes(0, 0)])
def test_both_sides_together_are_the_mixture_of_ville(votes):
    """The two-sided mixture is the mean of both one-sided ones. The library is not among the requirements."""
    ville = pytest.importorskip("ville")
    stream = np.repeat([1.0, 0.0], [votes.candidate, votes.production])
    expected = 0.0
    if len(stream):
        test = ville.BernoulliTest(0.5, prior=(PRIOR, PRIOR))
        expected = float(test._process(stream)[-1])
    sides = [log_e_value(votes), log_e_value(Votes(votes.production, votes.candidate))]
    assert np.logaddexp(*sides) - math.log(2) == pytest.approx(expected, abs=1e-9)


def test_e_value_seldom_reaches_its_bound_at_any_time_if_the_candidate_is_no_better():
    draw = np.random.default_rng(0)
    reached = 0
    for _ in range(400):
        wins = np.cumsum(draw.random(300) < 0.5)
        # every tenth look, because each takes a third of a millisecond
        votes = [Votes(int(wins[row - 1]), row - int(wins[row - 1])) for row in range(10, 301, 10)]
        reached += max(map(log_e_value, votes)) >= math.log(10)
    assert reached / 400 <= 0.1
    # and reaches it if it is better
    assert log_e_value(Votes(130, 70)) > math.log(100)
