import pytest

from tuneline.checks.tables import derive_tables
from tuneline.core.runtime.errors import DataError
from tuneline.model.tasks import Classification


def test_split_with_wrong_columns_is_refused(data, check):
    del data.tokenized["test"]["token_type_ids"]
    with pytest.raises(DataError, match=r"test.parquet: token_type_ids: expected list of int8, found none"):
        check(data)


def test_different_label_names_between_splits_are_refused(data, tmp_path):
    folders = data.write(tmp_path / "data")
    data.labels = Classification(("no", "yes", "maybe"))
    other = data.write(tmp_path / "other")
    (other.raw / "test.parquet").replace(folders.raw / "test.parquet")
    with pytest.raises(DataError, match="expected no, yes, perhaps, found no, yes, maybe"):
        derive_tables(data.params, folders, None)
