"""How sure a figure from few rows is."""

import math
from statistics import NormalDist

LEVEL = 0.95
_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)

Interval = tuple[float, float]


def wilson_interval(successes: int, trials: int) -> Interval:
    """Score interval of a share (Wilson 1927; Brown, Cai & DasGupta 2001, equation 4): sound also for few trials and near 0 and 1.

    Args:
        successes: How many of the trials.
        trials: At least 1.
    """
    share, spread = successes / trials, _Z**2 / trials
    middle = (share + spread / 2) / (1 + spread)
    reach = _Z / (1 + spread) * math.sqrt(share * (1 - share) / trials + spread / (4 * trials))
    low, high = middle - reach, middle + reach
    return (0.0 if successes == 0 else low, 1.0 if successes == trials else high)  # exact, without what rounding leaves


def pearson_interval(correlation: float, rows: int) -> Interval:
    """Interval of Pearson's r by its z-transform (Fisher 1921); everything, where there are too few rows to say."""
    if rows <= 3 or abs(correlation) >= 1:
        return (-1.0, 1.0)
    z, reach = math.atanh(correlation), _Z / math.sqrt(rows - 3)
    return math.tanh(z - reach), math.tanh(z + reach)
