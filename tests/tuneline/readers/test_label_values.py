"""Values of labelled rows: one name for one class, group or number, however a file writes it."""

from decimal import Decimal

import pytest

from tuneline.readers.label_values import ValueProblemError, class_name, label_number, plain_text


@pytest.mark.parametrize(
    ("value", "name"),
    [("1.0", "1"), (1.0, "1"), (" -2.00 ", "-2"), ("1.5", "1.5"), ("007.0", "007.0"), (" ", None)],
)
def test_class_of_new_rows_is_named_as_download_names_it(value, name):
    assert class_name(value) == name


@pytest.mark.parametrize("value", [7, 7.0, "7", " 7\t", Decimal("7.00")])
def test_group_is_the_same_however_it_is_written(value):
    assert plain_text(value) == "7"


@pytest.mark.parametrize("value", ["high", "1_000", "1,5", "\u0661", True, [1], "1e39", float("inf")])
def test_what_is_no_number_of_32_bits_is_refused(value):
    with pytest.raises(ValueProblemError):
        label_number(value)
