"""How a column of numbers is written."""

import pytest

from tuneline.columns.file_numbers import with_numbers_of
from tuneline.sniffing.files import sniff


@pytest.mark.parametrize(
    ("numbers", "decimal"),
    [
        (("3,5", "4"), ","),
        (("3.5", "4"), "."),
        (("3", "4"), "."),
        (("3,5", "", "-0,25"), ","),
        (("a", "4"), "."),
    ],
)
def test_decimal_mark_is_that_of_the_numbers(numbers, decimal, tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("text;score\n" + "".join(f"the parcel;{number}\n" for number in numbers))
    assert with_numbers_of(sniff(path).settled(), "score").layout.decimal == decimal
