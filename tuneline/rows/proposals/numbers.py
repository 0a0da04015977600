"""Columns of numbers, and what is written where a number is missing.

Numbers with decimal commas, thousands or units are refused.
"""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from tuneline.core.runtime.terminal import listed
from tuneline.model.tasks.task import MISSING_WORDS
from tuneline.rows.proposals.profiles import Column
from tuneline.rows.proposals.readings import IF_NAMED, LEAST_FIT, PLAIN, WEAK, LabelReading
from tuneline.rows.reading.label_values import MINUS

SIGN = rf"[+\-{MINUS}]?"
PLAIN_NUMBER = re.compile(rf"{SIGN}(?!0\d)(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
"""Numbers with leading zeros are codes."""
GROUPED = re.compile(rf"{SIGN}[1-9]\d{{0,2}}(?:\.\d{{3}})+")
"""A number that can have thousands."""
DECIMAL_COMMA = re.compile(rf"{SIGN}(?!0\d)(?:\d+,?\d*|,\d+)")
"""A number that can have a decimal comma."""
VERSION = r"\d+\.(?!\d{3}\.)\d+\.\d"
WRITTEN = re.compile(
    rf"(?!{VERSION})(?:[$€£¥~]|[A-Za-z]{{2,4}}\s)?{SIGN}[$€£¥]?\s?(?!0\d)"
    r"\d[\d.,' \u00a0\u202f]*\s?[^\d.,;|/\s-]{0,12}"
)
"""A number with a unit, a comma, or marks between thousands; no version such as 2.0.1."""
MOST_INTEGER_CLASSES = 20
"""Distinct whole numbers; more are rather numbers to predict."""
RARE = 0.08
"""Share of the numbers whose point cannot be between thousands, up to which these are mistakes."""
WRITE_PLAIN = (
    "Write plain numbers, with a point before decimals, without a unit or marks between thousands: 1234.5,"
    " and 2.000 beside 1.234"
)


def numbers_of(column: Column) -> Counter[str]:
    """Return the number of cells by value, of those that are plain numbers."""
    numbers: Counter[str] = Counter()
    for text, cells in column.values.items():
        if PLAIN_NUMBER.fullmatch(text):
            numbers[text] = cells
    return numbers


def nearly_all(column: Column, form: re.Pattern[str]) -> bool:
    """Return True if nearly all cells that say something have this form."""
    fitting = sum(cells for text, cells in column.values.items() if form.fullmatch(text))
    return fitting >= LEAST_FIT * (column.counted - _missing(column).total())


def _missing(column: Column) -> Counter[str]:
    missing: Counter[str] = Counter()
    for text, cells in column.values.items():
        if text.lower() in MISSING_WORDS:
            missing[text] = cells
    return missing


def missing_where(words: Counter[str]) -> str:
    """Return what cells say whose value is missing, with their number, to end a phrase; else nothing."""
    if not words:
        return ""
    return f"; missing where it says {listed(dict(words.most_common()), 3)} ({words.total():,} rows)"


def written_as_names(texts: Collection[str]) -> bool:
    """Return True if numbers are written as codes, sections and versions are: 250.00, 250.0, 1.10 and 1.9.

    They have different decimals, or zeros at the end: if they are few, one of these suffices.
    """
    decimals = [text.partition(".")[2] for text in texts]
    is_varied = len(set(map(len, decimals))) > 1
    has_zeros = any(len(digits) > 1 and digits.endswith("0") for digits in decimals)
    has_equal = len({float(text.replace(MINUS, "-")) for text in texts}) < len(texts)
    if len(texts) <= MOST_INTEGER_CLASSES:
        return is_varied or has_zeros
    return is_varied and (has_zeros or has_equal)


def number_readings(column: Column) -> list[LabelReading]:
    """Return how the column is a label of numbers: at most one reading."""
    missing = _missing(column)
    numbers = numbers_of(column)
    if numbers.total() < max(LEAST_FIT * (column.counted - missing.total()), 2):
        if len(column.values) < 2 or not nearly_all(column, WRITTEN):
            return []
        return [_reading(column, PLAIN, "numbers with commas, units or thousands", refused=WRITE_PLAIN)]

    values = {float(text.replace(MINUS, "-")) for text in numbers}
    if len(values) < 2:
        return []
    rank = IF_NAMED
    doubt = ""
    if written_as_names(numbers):
        examples = listed(sorted(numbers, key=len, reverse=True)[:3])
        doubt = f"numbers such as {examples} can be codes, sections or versions, and names then"
    if doubt or not all(map(float.is_integer, values)):
        rank = PLAIN
    elif len(values) > MOST_INTEGER_CLASSES:
        rank = WEAK
    words = f"numbers from {min(values):g} to {max(values):g}{missing_where(missing)}"
    others = Counter(column.values) - missing - numbers
    reading = _reading(column, rank, words, refused="" if _is_decimal(numbers) else WRITE_PLAIN)
    return [
        replace(
            reading,
            coverage=numbers.total() / max(column.counted, 1) * column.coverage,
            exceptions=tuple(dict(others.most_common(3))),
            doubt=doubt,
        )
    ]


def _is_decimal(numbers: Counter[str]) -> bool:
    """Return False if the point can be between thousands: before three digits, where small numbers have none.

    Three digits behind a point in every cell are decimals.
    """
    marked = {text: cells for text, cells in numbers.items() if "." in text}
    grouped = sum(cells for text, cells in marked.items() if GROUPED.fullmatch(text))
    return grouped < (1 - RARE) * sum(marked.values()) or len(marked) in (0, len(numbers))


def _reading(column: Column, rank: int, trains: str, refused: str) -> LabelReading:
    return LabelReading((column.name,), column.name, "regression", rank, trains, refused=refused)
