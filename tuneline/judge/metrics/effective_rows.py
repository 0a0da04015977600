"""How many independent rows a split is worth, where its rows come in clusters.

Copies of a text, and rows of one customer, are right or wrong together. A metric of such rows varies as a
metric of fewer independent rows does: the effective rows. Two estimates are made, and the larger variance
counts, because each is too small where the other one is not:

- The cluster jackknife leaves out one cluster after the other. It assumes nothing, but sees too little where
  few clusters have an error (Efron & Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 11;
  MacKinnon, Nielsen & Webb, "Fast and reliable jackknife and bootstrap methods for cluster-robust
  inference", Journal of Applied Econometrics 38, 2023).
- The design effect inflates the variance of independent rows by the intraclass correlation of right and
  wrong (Kish, "Survey Sampling", 1965, section 8.2; Rao & Scott, "A simple method for the analysis of
  clustered binary data", Biometrics 48, 1992). It knows that copies are alike, whatever their number.

Few clusters, or one that has most of the rows, estimate a variance badly: a quantile of Student's t allows
for that, with as many degrees of freedom as there are clusters of equal size (Korn & Graubard, "Confidence
intervals for proportions with small expected number of positive counts estimated from survey data", Survey
Methodology 24, 1998; Dean & Pagano, "Evaluating confidence interval methods for binomial proportions in
clustered surveys", Journal of Survey Statistics and Methodology 3, 2015).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.model.tasks.task import Floats

Members = NDArray[np.int64]
"""Number of the cluster of each row, from 0, shape ``(rows,)``."""
LeaveOut = Callable[[Members], Iterator[Floats]]
"""From the number of a block of each row to the scores without each block, in parts ``(blocks, scores)``."""

MOST_BLOCKS = 1_000
"""Blocks that the jackknife leaves out: more clusters are joined at random."""


@dataclass(frozen=True)
class RowClusters:
    """The clusters of the rows of a split.

    Attributes:
        members: Number of the cluster of each row, from 0, shape ``(rows,)``.
        sizes: Rows of each cluster, shape ``(clusters,)``.
    """

    members: Members
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, clusters: NDArray[Any] | None, rows: int) -> Self:
        """Return the clusters, given a number for each row; ``None``: each row is on its own."""
        if clusters is None:
            clusters = np.arange(rows)
        _, members, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
        return cls(members.astype(np.int64), sizes)

    @property
    def independent(self) -> bool:
        """True if each row is a cluster of its own."""
        return len(self.sizes) == len(self.members)

    @cached_property
    def effective(self) -> float:
        """Number of clusters of equal size that are worth as much as these, at most their number."""
        return len(self.members) ** 2 / float(np.sum(self.sizes.astype(np.float64) ** 2))

    def critical(self, level: float) -> float:
        """Return by how many standard errors an interval of this level extends; infinite for one cluster."""
        from scipy.special import ndtri, stdtrit

        if self.independent:
            return float(ndtri((1 + level) / 2))
        if self.effective <= 1:
            return math.inf
        return float(stdtrit(self.effective - 1, (1 + level) / 2))

    def means(self, values: Floats) -> Floats:
        """Return the mean of each cluster."""
        return np.bincount(self.members, values) / self.sizes

    def design_effect(self, outcomes: Floats) -> float:
        """Return by what the variance of a mean exceeds the variance of independent rows, at least 1.

        Args:
            outcomes: What varies, shape ``(rows,)``: 1 for a row that is right, for example. If nothing does,
                the rows of a cluster are taken for copies.
        """
        if self.independent:
            return 1.0
        rows = len(self.members)
        total = float(np.var(outcomes))
        correlation = 1.0
        if total > 0:
            deviations = outcomes - self.means(outcomes)[self.members]
            within = float(np.sum(deviations**2)) / (rows - len(self.sizes))
            correlation = min(max(1 - within / total, 0.0), 1.0)
        return 1 + correlation * (rows / self.effective - 1)

    def variance(self, leave_out: LeaveOut, observed: Floats, outcomes: Floats) -> Floats:
        """Return the variance of scores, shape ``(scores,)``.

        Args:
            leave_out: Computes the scores without each block.
            observed: Scores on all rows, shape ``(scores,)``.
            outcomes: What varies, shape ``(rows,)``; see ``design_effect``.
        """
        of_rows = _jackknife(leave_out, observed, np.arange(len(self.members)))
        if self.independent:
            return of_rows
        of_clusters = _jackknife(leave_out, observed, self.members)
        return np.maximum(of_rows * self.design_effect(outcomes), of_clusters)


def _jackknife(leave_out: LeaveOut, observed: Floats, members: Members) -> Floats:
    """Return the jackknife variance of scores, shape ``(scores,)``, leaving out each cluster of rows."""
    blocks = int(members.max()) + 1
    if blocks > MOST_BLOCKS:
        # the same number of clusters in each block, by chance
        block_of = np.random.default_rng(0).permutation(blocks) % MOST_BLOCKS
        members = block_of[members]
        blocks = MOST_BLOCKS
    if blocks < 2:
        return np.full(len(observed), np.inf)
    total = np.zeros(len(observed))
    with np.errstate(invalid="ignore"):
        for scores in leave_out(members):
            total += np.sum((scores - observed) ** 2, axis=0)
    # without one of the blocks, a score is not defined
    total[np.isnan(total)] = np.inf
    return total * (blocks - 1) / blocks


def score_bounds(share: float, rows: float, critical: float) -> tuple[float, float]:
    """Return the ends of Wilson's interval of a share from 0 to 1, of any number of effective rows.

    Source: Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", 1927; Brown, Cai &
    DasGupta, "Interval Estimation for a Binomial Proportion", Statistical Science 16, 2001, equation 4.
    """
    if math.isinf(critical) or rows <= 0:
        return 0.0, 1.0
    # The middle is drawn from the share towards 1/2, more so with few rows.
    spread = critical**2 / rows
    middle = (share + spread / 2) / (1 + spread)
    half = critical / (1 + spread) * math.sqrt(share * (1 - share) / rows + spread / (4 * rows))
    # Rounding would leave the ends at 0 and 1 just beside them.
    low = 0.0 if share == 0 else max(middle - half, 0.0)
    high = 1.0 if share == 1 else min(middle + half, 1.0)
    return low, high
