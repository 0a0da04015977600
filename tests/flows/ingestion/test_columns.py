import pytest

from flows.ingestion.columns import as_class
from flows.ingestion.known import Classes
from tests.params import params


@pytest.mark.parametrize(("value", "name"), [("1.0", "1"), (1.0, "1"), (" -2.00 ", "-2"), ("1.5", "1.5"), ("007.0", "007.0"), (" ", None)])
def test_class_of_new_rows_is_named_as_download_names_it(value, name):
    assert as_class(value) == name


def test_label_name_with_decimals_is_found_without_them():
    data = params(data={"label_names": ["0.0", "1.0"]}).data
    assert Classes.of(data, frozenset({"0", "1"})).written == {"0": "0.0", "1": "1.0"}
