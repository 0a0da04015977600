"""How classes of new rows are written."""

from flows.ingestion.known import class_names
from tests.params import params


def test_label_name_with_decimals_is_found_without_them():
    data = params(data={"label_names": ["0.0", "1.0"]}).data
    assert class_names(data, frozenset({"0", "1"})) == {"0": "0.0", "1": "1.0"}
