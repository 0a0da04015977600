"""How a table is written: delimiter, quotes, titles and header, by its first lines."""

import csv
import itertools
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tuneline.rows.reading.formats import SEPARATOR_LINE, split_records
from tuneline.rows.reading.limits import ANY_CELL, CUT_RECORD, SNIFFED_RECORDS
from tuneline.rows.reading.tables import Input

DELIMITERS = (",", "\t", ";", "|")
APOSTROPHE, BACKSLASH = "'", "\\"
LEAST_EVEN = 0.9
"""Share of records with one cell, and of tidy lines, from which quotes enclose whole records."""


def fitting_layout(lines: Sequence[str], usual: Input) -> Input:
    """Return a file with the layout that splits its first lines most evenly, ``usual`` for its format."""
    separator = SEPARATOR_LINE.fullmatch(lines[0])
    delimiter = separator and separator[1]
    table = lines[1:] if separator else lines
    # ``max`` returns the first of equals: the usual one.
    return max(layouts(usual, delimiter, table), key=lambda layout: layout_fit(table, layout))


def first_records(lines: Sequence[str], layout: Input) -> list[list[str]]:
    """Return the first records, of any form."""
    csv.field_size_limit(ANY_CELL)
    return list(itertools.islice(split_records(layout, iter(lines)), SNIFFED_RECORDS))


def layouts(usual: Input, delimiter: str | None, lines: Sequence[str]) -> list[Input]:
    """Return a file with each layout that it may have, the usual ones first.

    Other quotes and escapes than the usual ones come into question only where the lines have them.

    Args:
        usual: The file, as its format is usually written.
        delimiter: The delimiter, if the file names it.
        lines: The first lines.
    """
    delimiters = sorted(DELIMITERS, key=lambda character: character != usual.delimiter)
    if delimiter is not None:
        delimiters = [delimiter]
    text = "".join(lines)
    likely = []
    unlikely = []
    for character in delimiters:
        literal = replace(usual, delimiter=character, quoting="literal")
        # Of layouts that fit equally well, quotes that enclose cells are likelier than literal ones, but for
        # tabs. Without a header, texts that all have one comma look like two columns.
        if character == "\t":
            likely.append(literal)
        else:
            unlikely.append(literal)
        likely.append(replace(usual, delimiter=character, quoting="standard"))
    for character in delimiters:
        other = replace(usual, delimiter=character, quoting="standard")
        if BACKSLASH + usual.quote in text:
            likely.append(replace(other, escape=BACKSLASH))
        edge = re.escape(character)
        if re.search(rf"(^|{edge})'[^'\n]*'({edge}|$)", text, re.MULTILINE):
            likely.append(replace(other, quote=APOSTROPHE))
    return likely + unlikely


def layout_fit(lines: Sequence[str], layout: Input) -> tuple[float, bool, float]:
    """Return how well a layout fits lines: how even its records are, the first one too, and its quotes.

    Evenness is the fraction of records with the most common number of cells, 0 where that is 1. Below the
    header of a table with semicolons, each row may have one comma: the first record decides. A file with
    literal quotes becomes irregular when they are read as quoting: cells run over line ends, or text follows
    a closing quote, which the strict mode of the csv module refuses.
    """
    counts = record_widths(lines, layout)
    if not counts:
        return 0.0, False, 0.0
    width, agreeing = counts.most_common(1)[0]
    quoted = replace(layout, quoting="standard", quote='"')
    if layout != quoted and is_one_column(lines, quoted):
        return 0.0, False, 0.0
    evenness = 0.0
    if width > 1:
        # Rounded, because the end of the sample cuts the last record, of several lines in quotes.
        evenness = round(agreeing / counts.total(), 2)
    first = next(filter(None, split_records(layout, iter(lines))))
    return evenness, len(first) == width, tidiness(lines, layout)


def record_widths(lines: Sequence[str], layout: Input) -> Counter[int]:
    """Return how many records have each number of cells. Empty lines are none."""
    csv.field_size_limit(ANY_CELL)
    widths = Counter(map(len, split_records(layout, iter(lines))))
    del widths[0]
    return widths


def is_one_column(lines: Sequence[str], layout: Input) -> bool:
    """Return True if quotes enclose whole records: the delimiters inside are of the texts."""
    widths = record_widths(lines, layout)
    return widths[1] >= LEAST_EVEN * widths.total() and tidiness(lines, layout) >= LEAST_EVEN


def tidiness(lines: Sequence[str], layout: Input) -> float:
    """Return how regular the quotes are under a layout, from 0 to 1; 1 if there are none."""
    quoted = [line for line in lines if layout.quote in line]
    if not quoted:
        return 1.0
    if layout.quoting == "literal":
        # Cells that are completely quoted are not literal.
        cells = 0
        enclosed = 0
        for line in quoted:
            for cell in map(str.strip, line.split(layout.delimiter)):
                cells += 1
                enclosed += len(cell) > 1 and cell[0] == cell[-1] == layout.quote
        return (cells - enclosed) / cells

    reader = split_records(layout, iter(lines), strict=True)
    untidy = 0
    while True:
        before = reader.line_num
        try:
            next(reader)
        except StopIteration:
            return max(0.0, 1 - untidy / len(quoted))
        except csv.Error:
            taken = reader.line_num - before
            # A short record at the end of the sample may only be cut.
            if reader.line_num < len(lines) or taken >= CUT_RECORD:
                untidy += max(taken, 1)


def is_title(records: Sequence[Sequence[str]]) -> bool:
    """Return True if the first record is a title above the table: one cell, or few of those that are used."""
    filled = []
    for record in records:
        filled.append(sum(map(bool, map(str.strip, record))))
    usual = statistics.median(map(len, records))
    return filled[0] < statistics.median(filled) / 2 or (filled[0] == 1 and len(records[0]) != usual)


# Names that columns of texts and labels have in public data sets.
LABEL_NAMES = (
    "label",
    "labels",
    "gold_label",
    "class",
    "category",
    "target",
    "queue",
    "intent",
    "topic",
    "sentiment",
    "emotion",
    "is_duplicate",
    "quality",
    "stance",
    "polarity",
    "rating",
    "stars",
    "score",
    "similarity",
    "y",
    "tag",
)
ONLY_LABEL_NAMES = ("label", "labels", "gold_label", "class", "category", "target", "y")
"""Names of a column that is the label, whatever other columns of 0 and 1 there are."""
SET_NAMES = ("tags", "categories", "topics", "genres", "emotions", "intents", "classes", "keywords")
"""Names of columns with several labels per row."""
TEXT_NAMES = (
    "text",
    "sentence",
    "body",
    "content",
    "message",
    "review",
    "comment",
    "tweet",
    "document",
    "description",
    "utterance",
    "question",
    "query",
    "title",
    "subject",
)
PAIRS = (
    ("sentence1", "sentence2"),
    ("sentence_1", "sentence_2"),
    ("sentence_a", "sentence_b"),
    ("text1", "text2"),
    ("text_1", "text_2"),
    ("text_a", "text_b"),
    ("question1", "question2"),
    ("#1 string", "#2 string"),
    ("premise", "hypothesis"),
    ("question", "answer"),
    ("question", "sentence"),
    ("query", "document"),
    ("query", "passage"),
    ("subject", "body"),
    ("title", "body"),
    ("title", "text"),
    ("title", "content"),
    ("title", "description"),
    ("headline", "body"),
)
KNOWN_NAMES = frozenset({"id"}.union(LABEL_NAMES, TEXT_NAMES, *PAIRS))

LONGEST, MOST_WORDS = 60, 4
"""Characters and words of a name; a cell with more is a text."""


def has_header(records: Sequence[Sequence[str]]) -> bool | None:
    """Return True if the first record names the columns, False if it is a row, ``None`` if it can be both.

    A well-known name that no row has is a header. Else, a value of the column below, or a number with a sign
    or a point, makes it a row; a word above numbers makes it a header. Where neither is there, several short
    cells are a header, unless all cells below are as short and occur once. Records below that repeat the
    first do not count: a file that was appended to another has its header again.
    """
    first = [cell.strip() for cell in records[0]]
    below = []
    for record in records[1:]:
        if len(record) == len(first) and _plain(record) != _plain(first):
            below.append(record)

    is_row = False
    is_header = False
    is_alike = bool(below)
    for position, cell in enumerate(first):
        cells = [record[position].strip() for record in below]
        values = list(filter(None, cells))
        if cell.casefold() in KNOWN_NAMES and cell not in values:
            return True
        if cell in values or (_is_number(cell) and not cell.isdecimal()):
            is_row = True
        if cell and values and not _is_number(cell) and all(map(_is_number, values)):
            is_header = True
        if len(set(values)) < len(values) or not all(map(_is_short, values)):
            is_alike = False
    if is_row != is_header:
        return is_header
    if is_row or is_alike:
        return None
    are_names = len(first) > 1 and all(map(_is_short, first))
    return are_names or None


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
