"""Whether the first record of a table names its columns.

Each column gives evidence: how likely its first cell is as a name, and how likely as one more of the cells
below it. The logarithms of these ratios are added up, as in naive Bayes. So a word above a column of numbers,
a class that occurs in the first line only, and a first cell that is shorter than every text below count each
for what they are worth, and none of them alone decides against all others.
"""

import math
from collections import Counter
from collections.abc import Sequence

from tuneline.sniffing.names import LABEL_NAMES, PAIRS, TEXT_NAMES

KNOWN_NAMES = frozenset({"id"}.union(LABEL_NAMES, TEXT_NAMES, *PAIRS))

HAS_HEADER = 0.9
"""Share of files that have a header.

The shares below are of headers or of their names, estimated from public data sets.
"""
KNOWN = 0.3
"""Names that are well known, such as "text"."""
KNOWN_BY_CHANCE = 0.002
"""Cells of the first row that are such a name by chance."""
NUMBER, FRACTION = 0.02, 0.0005
"""Names that are numbers, such as years, and that are numbers with a point."""
OCCURS_BELOW = 0.001
"""Names that are the value of a cell in their column, too."""
LONG = 0.02
"""Names of more than ``LONGEST`` characters or ``MOST_WORDS`` words."""
LONGEST, MOST_WORDS = 60, 4
BLANK = 0.05
"""Names that are missing, such as the name of the index that pandas writes."""
TWICE = 0.01
"""Headers with a name twice."""
COUNTED = 0.01
"""Headers that number the columns from 0, as pandas does where they have no names."""
MOSTLY_BLANK = 0.9
"""Share of blank cells from which a column without a name says nothing."""
CERTAIN = 2.0
"""Evidence that decides, as the logarithm of a ratio: 7 to 1."""


def header_evidence(records: Sequence[Sequence[str]]) -> float:
    """Return how much likelier it is that the first record is a header than a row, as a logarithm.

    Records below that repeat the first do not count: a file that was appended to another has its header
    again. With a single record there is nothing to compare, and the names alone tell.
    """
    filled = [record for record in records if record]
    first = filled[0]
    below = []
    for record in filled[1:]:
        if len(record) == len(first) and _plain(record) != _plain(first):
            below.append(record)
    cells = [cell.strip() for cell in first]
    positions = [str(position) for position in range(len(first))]
    is_counted = len(first) > 1 and cells == positions

    # evidence of the file
    evidence = math.log(HAS_HEADER / (1 - HAS_HEADER)) + _twice_evidence(first, below)
    if is_counted:
        evidence += math.log(COUNTED)

    # evidence of each column
    for position, cell in enumerate(cells):
        values = [record[position].strip() for record in below]
        evidence += _cell_evidence(cell, values, is_counted)
    return evidence


def _cell_evidence(cell: str, below: Sequence[str], is_counted: bool) -> float:
    """Return the evidence of one column: its first cell, and the cells below."""
    filled = [value for value in below if value]
    blank = _share(len(below) - len(filled), len(below))
    if not cell:
        if blank >= MOSTLY_BLANK or not below:
            return 0.0
        return math.log(BLANK / blank)
    evidence = math.log((1 - BLANK) / (1 - blank))

    # Is it a number, and are they?
    numbers = _share(sum(map(_is_number, filled)), len(filled))
    if is_counted:
        evidence -= math.log(numbers)
    elif cell.isdecimal() and _is_number(cell):
        evidence += math.log(NUMBER / numbers)
    elif _is_number(cell):
        evidence += math.log(FRACTION / numbers)
    else:
        evidence += math.log((1 - NUMBER) / (1 - numbers))

    # Is it as short as a name, and are they?
    names = _share(sum(map(_is_short, filled)), len(filled))
    if _is_short(cell):
        evidence += math.log((1 - LONG) / names)
    else:
        evidence += math.log(LONG / (1 - names))

    # Does it occur again, and do they? A class does, a name seldom.
    counts = Counter(filled)
    repeated = _share(sum(times for times in counts.values() if times > 1), len(filled))
    if not is_counted and cell in counts:
        evidence += math.log(OCCURS_BELOW / repeated)
    elif not is_counted:
        evidence += math.log((1 - OCCURS_BELOW) / (1 - repeated))

    # Is it a name that many files have?
    known_below = sum(value.casefold() in KNOWN_NAMES for value in filled)
    known = max(KNOWN_BY_CHANCE, known_below / max(len(filled), 1))
    if cell.casefold() in KNOWN_NAMES:
        return evidence + math.log(KNOWN / min(known, 1.0))
    return evidence + math.log((1 - KNOWN) / max(1 - known, KNOWN_BY_CHANCE))


def _twice_evidence(first: Sequence[str], below: Sequence[Sequence[str]]) -> float:
    """Return the evidence of equal cells in the first record."""
    twice = _share(sum(map(_has_equal_cells, below)), len(below))
    if _has_equal_cells(first):
        return math.log(TWICE / twice)
    return math.log((1 - TWICE) / (1 - twice))


def _has_equal_cells(record: Sequence[str]) -> bool:
    filled = [cell for cell in record if cell.strip()]
    return len(set(filled)) < len(filled)


def _share(count: int, total: int) -> float:
    """Return a share that is neither 0 nor 1: half an observation is added to each side."""
    return (count + 0.5) / (total + 1)


def _plain(record: Sequence[str]) -> list[str]:
    """Return the cells of a record, sorted, without case, quotes and byte order mark, to compare records."""
    return sorted(cell.strip('\ufeff "').casefold() for cell in record)


def _is_short(cell: str) -> bool:
    return len(cell) <= LONGEST and len(cell.split()) <= MOST_WORDS


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
