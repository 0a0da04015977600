"""The character before the decimals of a column of numbers."""

import pytest

from tuneline.sniffing.decimals import with_decimal
from tuneline.sniffing.files import sniff


@pytest.mark.parametrize(
    ("numbers", "decimal"),
    [
        (("3,5", "4"), ","),
        (("3.5", "4"), "."),
        (("3,5", "4.5"), "."),
        (("3", "4"), "."),
        (("3,5", "", "-0,25"), ","),
        (("a", "4"), "."),
    ],
)
def test_decimal_comma_is_one_that_no_point_contradicts(numbers, decimal, tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("text;score\n" + "".join(f"the parcel;{number}\n" for number in numbers))
    assert with_decimal(sniff(path).settled(), "score").layout.decimal == decimal
