"""Is a candidate better than production? The evidence of the rows that only one of them predicts correctly.

Such rows are discordant. If the candidate is no better, each of them favours it with a probability of at most
1/2. Rows of a cluster (copies of a text, rows of one customer) are right or wrong together: a cluster has one
vote.
"""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

PRIOR = 5.0
"""Both parameters of the Beta mixture of ``log_e_value``.

Two models of one recipe share most errors, so the candidate's part of the discordant rows is seldom beyond
3/4: this mixture looks there.
"""


@dataclass(frozen=True)
class Votes:
    """Clusters of rows that favour one model: it is right on more of their rows than the other one."""

    candidate: int
    production: int

    @classmethod
    def of(
        cls,
        candidate_right: NDArray[np.bool_],
        production_right: NDArray[np.bool_],
        clusters: NDArray[Any] | None = None,
    ) -> Self:
        """Count the votes; arrays of shape ``(rows,)``. Without ``clusters``, each row is on its own."""
        net = candidate_right.astype(np.int64) - production_right
        if clusters is not None:
            _, members = np.unique(clusters, return_inverse=True)
            net = np.bincount(members, net).astype(np.int64)
        return cls(int(np.sum(net > 0)), int(np.sum(net < 0)))

    @property
    def discordant(self) -> int:
        """Number of votes."""
        return self.candidate + self.production


def votes_needed(discordant: int, level: float) -> int | None:
    """Return how many of the discordant rows the candidate has to win.

    ``None`` if even all of them would not do.
    """
    from scipy.stats import binom

    # the exact test rejects at the smallest number whose tail is at most the level
    wins = np.arange(discordant + 1)
    sufficient = np.flatnonzero(binom.sf(wins - 1, discordant, 0.5) <= level)
    if len(sufficient) == 0:
        return None
    return int(sufficient[0])


def fewest_discordant(level: float) -> int:
    """Return the number of discordant rows below which no candidate can be promoted."""
    return math.ceil(-math.log2(level))


def log_e_value(votes: Votes) -> float:
    """Return the logarithm of the evidence that the candidate is better, which may be read at any time.

    It is a test martingale: a bet that starts at 1 and is fair, or loses, as long as the candidate wins at
    most half of the discordant rows. So the probability that it ever reaches ``1 / alpha`` is at most
    ``alpha`` (Ville's inequality), however often one looks, and whenever one stops.

    The bet is a mixture over the probability ``p`` of the candidate's win, by ``Beta(PRIOR, PRIOR)`` on
    1/2 < p <= 1, of the likelihood against 1/2 (Robbins, "Statistical methods related to the law of the
    iterated logarithm", 1970; Ramdas, Grünwald, Vovk & Shafer, "Game-theoretic statistics and safe anytime-
    valid inference", Statistical Science 38, 2023, section 3). In closed form, for ``b`` wins and ``c``
    losses::

        2 ^ (b + c) * B(PRIOR + b, PRIOR + c) / B(PRIOR, PRIOR) * P(p > 1 / 2) / (1 / 2)

    with ``p`` drawn from ``Beta(PRIOR + b, PRIOR + c)``.
    """
    from scipy.special import betaln
    from scipy.stats import beta

    wins = PRIOR + votes.candidate
    losses = PRIOR + votes.production
    likelihood = betaln(wins, losses) - betaln(PRIOR, PRIOR) + votes.discordant * math.log(2)
    above_half = beta.logsf(0.5, wins, losses) - math.log(0.5)
    return float(likelihood + above_half)
