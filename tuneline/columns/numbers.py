"""Columns of numbers: decimals, thousands, units, and what is written where a number is missing.

The marks are told by what contradicts them. A comma before two digits cannot group thousands; two commas
cannot be decimal marks; whole numbers up to 999 beside ``1,234`` are what thousands look like. Where nothing
contradicts either, there are two readings.
"""

import re
from collections import Counter
from dataclasses import dataclass

from tuneline.columns.reading import LEAST_FIT, Column, LabelReading, unusual
from tuneline.readers.label_values import MINUS, MISSING_NUMBERS, NumberFormat

DIGITS = r"\d{1,3}(?:[ '\u00a0\u202f]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)*\.?|[.,]\d+"
BEFORE = rf"(?P<before>[$€£¥~]?|[A-Za-z]{{2,4}}\s)(?P<sign>[+\-{MINUS}]?)(?P<currency>[$€£¥]?)\s?"
AFTER = r"(?P<after>\s?[^\d.,;|/\s-]{0,12})"
NUMBER = re.compile(rf"{BEFORE}(?P<digits>{DIGITS})(?P<exponent>[eE][+-]?\d+)?{AFTER}")
"""A number with a unit. Letters before it without a space make a code: ``e12``."""
LEADING_ZEROS = re.compile(r"[+-]?0\d.*")
"""A number with leading zeros, as codes have them."""
MARKS = {",": ".", ".": ","}
"""Marks that can be either: before decimals, or between thousands."""
GROUPED = {",": re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?"), ".": re.compile(r"\d{1,3}(\.\d{3})+(,\d+)?")}
MOST_INTEGER_CLASSES = 20
"""Distinct whole numbers; more are rather numbers to predict."""
FEWEST_NUMBERS = 3
RARE = 0.08
"""Share of the cells with a mark in one role, up to which these are mistakes."""
OUTLIER_SHARE = 0.02
"""Share of the rows with one number far outside from which it may mean that the number is missing."""
OUTLIER_DISTANCE = 5.0
"""How far outside: in widths of the range of the other numbers."""


@dataclass(frozen=True)
class ColumnNumbers:
    """A column as numbers.

    Attributes:
        format: How they are written.
        values: Number of cells by number.
        missing: Cells with a word for a missing number.
        others: Cells that are no numbers.
        fractions: Cells with decimals.
    """

    format: NumberFormat
    values: Counter[float]
    missing: Counter[str]
    others: Counter[str]
    fractions: int

    @property
    def outlier(self) -> float | None:
        """A number far outside of all others that many rows have, such as -999; ``None`` if there is none."""
        if len(self.values) < FEWEST_NUMBERS:
            return None
        ordered = sorted(self.values)
        candidates = ((ordered[0], ordered[1], ordered[-1]), (ordered[-1], ordered[0], ordered[-2]))
        for number, low, high in candidates:
            distance = min(abs(number - low), abs(number - high))
            is_far = distance > OUTLIER_DISTANCE * max(high - low, 1e-9)
            if is_far and self.values[number] >= OUTLIER_SHARE * self.values.total():
                return number
        return None


def numbers_of(column: Column) -> list[ColumnNumbers]:
    """Return the ways in which a column can be numbers: none, one, or two that cannot be told apart."""
    missing: Counter[str] = Counter()
    others: Counter[str] = Counter()
    found: dict[str, re.Match[str]] = {}
    units: Counter[str] = Counter()
    for text, cells in column.values.items():
        if text.lower() in MISSING_NUMBERS:
            missing[text] = cells
            continue
        match = NUMBER.fullmatch(text)
        if match is None:
            others[text] = cells
            continue
        found[text] = match
        units[_unit(match)] += cells
    if len(found) < 2:
        return []

    # a unit, the same in all cells but for a plural
    unit, _ = units.most_common(1)[0]
    for text, match in list(found.items()):
        if _unit(match) not in {unit, unit.removesuffix("s"), f"{unit}s"}:
            others[text] = column.values[text]
            del found[text]
    if unit and f"{unit}s" in units:
        unit = f"{unit}s"
    total = column.rows - missing.total()
    codes = sum(
        column.values[text] for text, match in found.items() if LEADING_ZEROS.fullmatch(match["digits"])
    )
    if others.total() + codes > (1 - LEAST_FIT) * total:
        return []

    digits: Counter[str] = Counter()
    for text, match in found.items():
        digits[match["digits"]] += column.values[text]
    readings = []
    for decimal, thousands in _marks(digits):
        form = NumberFormat(decimal, thousands, unit or None)
        readings.append(_as_numbers(column, form, found, missing, others))
    return readings


def _unit(match: re.Match[str]) -> str:
    return f"{match['before']}{match['currency']}{match['after']}".strip()


def _as_numbers(
    column: Column,
    form: NumberFormat,
    found: dict[str, re.Match[str]],
    missing: Counter[str],
    others: Counter[str],
) -> ColumnNumbers:
    """Return the values of a column in one format."""
    values: Counter[float] = Counter()
    rest = Counter(others)
    fractions = 0
    for text in found:
        try:
            value = float(form.plain(text))
        except ValueError:
            rest[text] = column.values[text]
            continue
        values[value] += column.values[text]
        if not value.is_integer():
            fractions += column.values[text]
    return ColumnNumbers(form, values, missing, rest, fractions)


Marks = tuple[str, str | None]
"""The decimal mark, and that of thousands."""


def _marks(digits: Counter[str]) -> list[Marks]:
    """Return the marks in each way that the digits allow."""
    commas = _roles(digits, ",")
    points = _roles(digits, ".")
    for mark, pattern in ((" ", r"\d[ \u00a0\u202f]\d"), ("'", r"\d'\d")):
        if any(re.search(pattern, text) for text in digits):
            return [("," if commas.used else ".", mark)]
    if commas.used and points.used:
        return [_of_both(commas, points)]
    if commas.used:
        return _of_commas(commas)
    return _of_points(points)


def _of_both(commas: "_Roles", points: "_Roles") -> Marks:
    """Return which mark groups thousands: that before three digits and the other."""
    if commas.decimals > commas.groups or points.groups > points.decimals:
        return (",", ".")
    return (".", ",")


def _of_commas(commas: "_Roles") -> list[Marks]:
    if commas.decimals > RARE * commas.used:
        return [(",", None)]
    if commas.is_surely_thousands:
        return [(".", ",")]
    if commas.large:
        return [(",", None)]
    return [(".", ","), (",", None)]


def _of_points(points: "_Roles") -> list[Marks]:
    if points.decimals or not points.groups:
        return [(".", None)]
    if points.is_surely_thousands:
        return [(",", ".")]
    if points.can_be_thousands:
        return [(".", None), (",", ".")]
    return [(".", None)]


@dataclass(frozen=True)
class _Roles:
    """What a mark can be.

    Attributes:
        used: Cells that have it.
        groups: Cells in which it can be between thousands.
        certain: Cells in which it can be nothing else.
        decimals: Cells in which it can only be before decimals.
        small, large: Whole numbers without a mark, up to 999 and above.
    """

    used: int
    groups: int
    certain: int
    decimals: int
    small: int
    large: int

    @property
    def can_be_thousands(self) -> bool:
        """True if whole numbers without the mark are small: otherwise they would have it, too."""
        return self.large == 0 and self.small > 0

    @property
    def is_surely_thousands(self) -> bool:
        """True if a cell has two groups, or if many small numbers have none and no large one has none."""
        if self.decimals > RARE * self.used:
            return False
        return self.certain > 0 or (self.can_be_thousands and self.small >= 0.2 * self.used)


def _roles(digits: Counter[str], mark: str) -> _Roles:
    counts: Counter[str] = Counter()
    other = MARKS[mark]
    for text, cells in digits.items():
        if mark not in text:
            if text.isdecimal():
                counts["small" if len(text) <= 3 else "large"] += cells
            continue
        counts["used"] += cells
        is_grouped = GROUPED[mark].fullmatch(text) is not None and not text.startswith("0")
        if is_grouped:
            counts["groups"] += cells
            if text.count(mark) > 1 or other in text:
                counts["certain"] += cells
        else:
            counts["decimals"] += cells
    return _Roles(**{name: counts[name] for name in _Roles.__dataclass_fields__})


def number_readings(column: Column) -> list[LabelReading]:
    """Return how the column is a label of numbers."""
    readings = []
    for numbers in numbers_of(column):
        distinct = len(numbers.values)
        if distinct < 2:
            continue
        total = max(numbers.values.total(), 1)
        low, high = min(numbers.values), max(numbers.values)
        trains = f"numbers from {low:g} to {high:g}"
        if numbers.fractions:
            why = "its labels are numbers with fractions"
            points = 1.5
        elif distinct > MOST_INTEGER_CLASSES:
            why = f"its labels are more than {MOST_INTEGER_CLASSES} distinct numbers"
            points = 1.0
        else:
            why = f"its labels are {distinct} distinct numbers"
            points = -1.0
        if numbers.format.thousands or numbers.format.unit:
            points += 1.0
        if numbers.format.unit and distinct <= MOST_INTEGER_CLASSES and not numbers.fractions:
            points = 1.5  # as likely as classes: 3 stars
        rest = set(column.values) - set(numbers.missing) - set(numbers.others)
        covered = total / max(column.rows, 1) * column.coverage
        readings.append(
            LabelReading(
                (column.name,),
                column.name,
                "regression",
                points,
                trains + numbers_in_words(numbers),
                why,
                numbers=numbers.format,
                coverage=covered,
                exceptions=unusual(numbers.others, rest),
                hint=outlier_hint(numbers),
            )
        )
    return readings


def outlier_hint(numbers: ColumnNumbers) -> str:
    """Return what a number far outside may mean; empty if there is none."""
    outlier = numbers.outlier
    if outlier is None:
        return ""
    cells = numbers.values[outlier]
    others = [number for number in numbers.values if number != outlier]
    return (
        f"{outlier:g} is in {cells:,} rows, and all others are from {min(others):g} to {max(others):g}: if it"
        " means that the number is missing, empty these cells"
    )


def numbers_in_words(numbers: ColumnNumbers) -> str:
    """Return how numbers are written, where it is unusual, and which words mean a missing one."""
    parts = []
    if numbers.format.decimal == ",":
        parts.append("decimal commas")
    if numbers.format.thousands is not None:
        parts.append(f"thousands by {numbers.format.thousands!r}")
    if numbers.format.unit is not None:
        parts.append(f"without {numbers.format.unit!r}")
    if numbers.missing:
        words = ", ".join(map(repr, list(numbers.missing)[:2]))
        parts.append(f"missing where it says {words}, in {numbers.missing.total():,} rows")
    return f" ({'; '.join(parts)})" if parts else ""
