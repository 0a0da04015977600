from collections import Counter

import pytest

from tuneline.columns.numbers import numbers_of
from tuneline.columns.profiles import profile
from tuneline.columns.reading import Column
from tuneline.readers.label_values import NumberFormat, label_number


def column(*cells: str) -> Column:
    (made,) = profile(["y"], [(cell,) for cell in cells])
    return Column(made, made.values)


@pytest.mark.parametrize(
    ("cells", "formats"),
    [
        (["1,234", "987", "12", "5,678,901"], [NumberFormat(".", ",")]),
        (["1,234", "987", "12", "450"], [NumberFormat(".", ",")]),
        (["1,234", "2,500"], [NumberFormat(".", ","), NumberFormat(",")]),
        (["0,234", "2,500"], [NumberFormat(",")]),
        (["4,27", "3,1"], [NumberFormat(",")]),
        (["1.234,50", "2,00"], [NumberFormat(",", ".")]),
        (["1,234.50", "2.00"], [NumberFormat(".", ",")]),
        (["1.234", "2.500"], [NumberFormat()]),
        (["1.234", "987", "345", "2.345.678"], [NumberFormat(",", ".")]),
        (["1 234", "2 500,5"], [NumberFormat(",", " ")]),
        (["1'234", "2'500"], [NumberFormat(".", "'")]),
        (["45%", "3%", "12.5%"], [NumberFormat(unit="%")]),
        (["$1,234.00", "$3.50"], [NumberFormat(".", ",", "$")]),
        (["3 stars", "1 star", "5 stars"], [NumberFormat(unit="stars")]),
        (["\u22121.5", "2.5"], [NumberFormat()]),
        (["2e-5", "1e3", "-4"], [NumberFormat()]),
        (["e12", "e13"], []),
        (["007", "012"], []),
        (["a", "b", "3"], []),
        (["2024-01-02", "2024-02-03"], []),
        (["10-20", "20-30"], []),
    ],
)
def test_marks_and_units_are_told_by_what_contradicts_them(cells, formats):
    found = numbers_of(column(*cells))
    assert [numbers.format for numbers in found] == formats


@pytest.mark.parametrize(
    ("text", "form", "value"),
    [
        ("1,234", NumberFormat(".", ","), 1234.0),
        ("1.234,5", NumberFormat(",", "."), 1234.5),
        ("1\u202f234,5", NumberFormat(",", " "), 1234.5),
        ("$-1,234.00", NumberFormat(".", ",", "$"), -1234.0),
        ("-$5", NumberFormat(unit="$"), -5.0),
        ("1 star", NumberFormat(unit="stars"), 1.0),
        ("\u22122.5", NumberFormat(), -2.5),
        ("N/A", NumberFormat(), None),
        ("nan", NumberFormat(), None),
    ],
)
def test_number_is_read_in_its_format(text, form, value):
    assert label_number(text, form) == value


def test_words_for_a_missing_number_are_no_mistakes():
    (found,) = numbers_of(column("8.75", "NA", "1.25", "nan", "3.0", "-"))
    assert found.missing == Counter({"NA": 1, "nan": 1, "-": 1})
    assert not found.others


def test_number_far_outside_of_all_others_is_noticed():
    cells = [str(number / 4) for number in range(20)]
    (without,) = numbers_of(column(*cells))
    (found,) = numbers_of(column(*cells, "-999", "-999"))
    assert without.outlier is None
    assert found.outlier == -999
