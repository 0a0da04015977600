import pytest

from tuneline.rows.proposals.profiles import count_columns
from tuneline.rows.proposals.readings import number_readings


def readings_of(cells):
    return number_readings(count_columns(["y"], [{"y": cells}])["y"])


@pytest.mark.parametrize(
    "cells",
    [
        ["1.234", "2.500"],
        ["1234", "2500"],
        ["\u22121.5", "2.5"],
        ["2e-5", "1e3", "-4"],
        ["8.75", "NA", "1.25", "nan", "-"],
    ],
)
def test_plain_numbers_are_read(cells):
    (reading,) = readings_of(cells)
    assert not reading.refused


@pytest.mark.parametrize(
    "cells",
    [
        ["4,27", "3,1"],
        ["0,234", "2,500"],
        ["3", "3,5"],
        ["1,234", "987", "12", "450"],
        ["1,234", "2,500"],
        ["1.234", "987", "12"],
        ["1,234", "987", "5,678,901"],
        ["1.234,50", "2,00"],
        ["1 234", "2 500,5"],
        ["45%", "3%", "12.5%"],
        ["$1,234.00", "$3.50"],
        ["3 stars", "1 star"],
    ],
)
def test_numbers_with_commas_thousands_or_units_are_refused(cells):
    (reading,) = readings_of(cells)
    assert "Write plain numbers" in reading.refused


@pytest.mark.parametrize(
    "cells",
    [["e12", "e13"], ["007", "012"], ["a", "b", "3"], ["2024-01-02", "2024-02-03"], ["10-20", "20-30"]],
)
def test_codes_and_dates_are_no_numbers(cells):
    assert readings_of(cells) == []
