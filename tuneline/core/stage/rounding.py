"""Numbers as files have them: six digits after the point, and more where a number has few of its own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuneline.core.stage.arrays import Floats

DIGITS = 6
"""Digits after the decimal point, unless a number would lose its significant ones."""
SIGNIFICANT = 3
"""Significant digits that a number keeps at least, such as 2.34e-07."""

NUMBER_DIGITS = 6
"""Significant digits of a number that is predicted, in whatever unit."""
MOST_PLACES = 300
"""Digits after the decimal point at most: ten to this power is a finite number."""


def decimal_places(number: float, significant: int = SIGNIFICANT) -> int:
    """Return how many digits after the decimal point keep the significant ones, ``DIGITS`` at least."""
    if number == 0 or not math.isfinite(number):
        return DIGITS
    return max(DIGITS, significant - 1 - math.floor(math.log10(abs(number))))


def rounded(number: float, significant: int = SIGNIFICANT) -> float:
    """Return a number, rounded."""
    return round(number, decimal_places(number, significant))


def shown(number: float, places: int) -> str:
    """Return a number for people: so many digits after the point, or three significant ones if all are 0."""
    text = f"{number:.{places}f}"
    if number and float(text) == 0:
        return f"{number:.{SIGNIFICANT}g}"
    return text


def rounded_up(number: float, significant: int) -> float:
    """Return a number that is rounded up: half the width of an interval promises nothing if it shrinks."""
    places = decimal_places(number, significant)
    nearest = round(number, places)
    return nearest if nearest >= number else round(nearest + 10.0**-places, places)


def rounded_numbers(numbers: Floats, significant: int, sizes: Floats | None = None) -> Floats:
    """Return numbers, rounded; of the same shape.

    Args:
        numbers: The numbers.
        significant: Digits that each keeps at least.
        sizes: What these digits are counted in, of the same shape; ``None``: in the number itself.
    """
    import numpy as np  # a stage that only writes records does not wait for it

    if sizes is None:
        sizes = np.abs(numbers)
    with np.errstate(divide="ignore"):
        places = np.maximum(DIGITS, significant - 1 - np.floor(np.log10(sizes)))
    places = np.nan_to_num(places, nan=DIGITS, posinf=DIGITS)
    factors = 10.0 ** np.minimum(places, MOST_PLACES)
    return np.asarray(np.round(numbers * factors) / factors)


def rounded_probabilities(probabilities: Floats) -> Floats:
    """Return probabilities, rounded so that only those that are 0 or 1 become so; of the same shape."""
    return rounded_numbers(probabilities, SIGNIFICANT, probabilities.clip(max=1 - probabilities))
