"""How a table is written: delimiter, quotes and titles, by its first lines."""

import csv
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tuneline.readers.delimited import split_records
from tuneline.readers.tables import Layout

DELIMITERS = (",", "\t", ";", "|")
RARE_DELIMITERS = ("::", ":::", "@", "||", "~", "^", "\x01")
"""Delimiters that come into question only where every line has them."""
APOSTROPHE, BACKSLASH = "'", "\\"
SEPARATOR_LINE = re.compile(r'\ufeff?"?sep=(.)"?\s*')
"""First line by which Excel is told the delimiter."""
SNIFFED_RECORDS = 1000
"""Records from which titles and the header are detected."""
LONGEST_RECORD = 100
"""Lines of a record that the end of the sample may cut."""
MOST_TITLES = 20
"""Records above a table that can be titles."""
LEAST_USED = 0.05
"""Share of the rows that have a cell of a column, above which the column is used: the header names it."""
LEAST_EVEN = 0.9
"""Share of records with the usual number of cells, from which what follows a title is a table."""
LONGEST_FIELD = 2**31 - 1
"""Characters. With the wrong layout, a field of the sample may run to its end."""


def fitting_layout(lines: Sequence[str], usual: Layout, delimiter: str | None, quoting: str | None) -> Layout:
    """Return the layout that splits the first lines of a file most evenly.

    Args:
        lines: The first lines.
        usual: The usual layout of the format.
        delimiter: The delimiter, if it is told.
        quoting: The quoting, if it is told.
    """
    skipped = 0
    separator = SEPARATOR_LINE.fullmatch(lines[0])
    if separator is not None:
        skipped = 1
        delimiter = delimiter or separator[1]
    table = lines[skipped:]

    # ``max`` returns the first of equals: the usual one.
    candidates = [each for each in layouts(usual, delimiter, table) if quoting in {None, each.quoting}]
    best = max(candidates, key=lambda layout: layout_fit(table, layout))
    return replace(best, skip_lines=skipped + count_titles(table, best))


def first_records(lines: Sequence[str], layout: Layout) -> list[list[str]]:
    """Return the first records, of any form."""
    csv.field_size_limit(LONGEST_FIELD)
    return list(itertools.islice(split_records(layout, iter(lines)), SNIFFED_RECORDS))


def layouts(usual: Layout, delimiter: str | None, lines: Sequence[str]) -> list[Layout]:
    """Return the layouts that a file may have, the usual ones first.

    Other quotes and escapes than the usual ones come into question only where the lines have them.

    Args:
        usual: The usual layout of the format.
        delimiter: The delimiter, if it is told.
        lines: The first lines.
    """
    delimiters = delimiters_of(usual, lines)
    if delimiter is not None:
        delimiters = [delimiter]

    # the usual quotes: in TSV, they are literal
    candidates = []
    for character in delimiters:
        standard = replace(usual, delimiter=character, quoting="standard")
        literal = replace(usual, delimiter=character, quoting="literal")
        if len(character) > 1:
            candidates.append(literal)
        else:
            candidates += [literal, standard] if character == "\t" else [standard, literal]

    # other quotes and escapes
    text = "".join(lines)
    escapes: list[str | None] = [None]
    if f'{BACKSLASH}"' in text or f"{BACKSLASH}'" in text:
        escapes.append(BACKSLASH)
    for character in delimiters:
        if len(character) > 1:
            continue  # the quotes of such a file are literal
        edge = re.escape(character)
        quotes = ['"']
        if re.search(rf"(^|{edge})'[^'\n]*'({edge}|$)", text, re.MULTILINE):
            quotes.append(APOSTROPHE)
        for quote in quotes:
            for escape in escapes:
                other = replace(usual, delimiter=character, quoting="standard", quote=quote, escape=escape)
                candidates.append(other)

    # Of layouts that fit equally well, quotes that enclose cells are likelier than literal ones. Without a
    # header, texts that all have one comma look like two columns, whatever really divides the cells.
    candidates.sort(key=_is_unlikely)
    return candidates


def _is_unlikely(layout: Layout) -> bool:
    """Return True for literal quotes with a delimiter of one character other than a tab."""
    return layout.quoting == "literal" and layout.delimiter != "\t" and len(layout.delimiter) == 1


def delimiters_of(usual: Layout, lines: Sequence[str]) -> list[str]:
    """Return the delimiters that may be between the cells of lines, the usual one first.

    Before it are those of several characters that every line has, as no text has them by chance.
    """
    delimiters = sorted(DELIMITERS, key=lambda character: character != usual.delimiter)
    filled = [line for line in lines if line.strip()]
    for characters in RARE_DELIMITERS:
        if not filled or not all(characters in line for line in filled):
            continue
        if len(characters) > 1:
            delimiters.insert(0, characters)
        else:
            delimiters.append(characters)
    return delimiters


def layout_fit(lines: Sequence[str], layout: Layout) -> tuple[float, float]:
    """Return how well a layout fits lines: how even its records are, and how regular its quotes.

    Evenness is the fraction of records with the most common number of cells, 0 where that is 1. A file with
    literal quotes becomes irregular when they are read as quoting: cells run over line ends, or text follows
    a closing quote, which the strict mode of the csv module refuses.
    """
    csv.field_size_limit(LONGEST_FIELD)
    counts = Counter(map(len, split_records(layout, iter(lines))))
    del counts[0]  # empty lines
    if not counts:
        return 0.0, 0.0
    width, agreeing = counts.most_common(1)[0]
    evenness = 0.0
    if width > 1:
        evenness = agreeing / counts.total()
    return evenness, tidiness(lines, layout)


def tidiness(lines: Sequence[str], layout: Layout) -> float:
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
            if reader.line_num < len(lines) or taken >= LONGEST_RECORD:
                untidy += max(taken, 1)


def count_titles(lines: Sequence[str], layout: Layout) -> int:
    """Return the number of lines above a table: almost empty records, such as a title, before even ones.

    A title has text in its first cell, and in less than half of the columns that are used below, or is a
    single cell; a header has a name for each of them, but for a first one.
    """
    reader = split_records(layout, iter(lines))
    ends: list[int] = []  # number of the last line of each record
    records: list[list[str]] = []
    for record in itertools.islice(reader, SNIFFED_RECORDS):
        records.append(record)
        ends.append(reader.line_num)
    widths = Counter(map(len, records))
    del widths[0]  # empty lines
    if not widths:
        return 0

    # the columns that are used below possible titles
    width = widths.most_common(1)[0][0]
    table = [record for record in records if len(record) == width]
    rows = table[MOST_TITLES:] or table[-1:]
    used = 0
    for column in zip(*rows, strict=True):
        cells = sum(bool(cell.strip()) for cell in column)
        used += cells > LEAST_USED * len(rows)

    for number, record in enumerate(records[: MOST_TITLES + 1]):
        filled = [bool(cell.strip()) for cell in record]
        if len(record) == width:
            is_title = sum(filled) < used / 2 and (filled[0] or not any(filled))
        else:
            # More filled cells can be a header, of rows whose texts have delimiters.
            is_title = sum(filled) <= 1
        if is_title:
            continue

        # the first record of the table
        if number == 0 or used <= 1:
            return 0
        below = [len(row) for row in records[number:] if row]
        if below.count(width) < LEAST_EVEN * len(below):
            return 0
        return ends[number - 1]
    return 0
