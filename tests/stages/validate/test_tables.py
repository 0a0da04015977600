from stages.validate.expectations import check_tables
from stages.validate.tables import derive_tables
from tuneline.tasks import Classification


def test_split_with_wrong_columns_is_not_checked_further(data, check):
    """No columns can be derived from it; the other splits are still checked."""
    del data.tokenized["test"]["token_type_ids"]
    results = check(data)
    assert {result.split for result in results.record.checks if result.table == "tokenized"} == {
        "train",
        "validation",
    }
    assert failed_columns(results) == [
        "expected tokenized token_type_ids: list of int8, found tokenized token_type_ids: absent"
    ]


def failed_columns(results) -> list[str]:
    (result,) = results.errors
    return result.notes


def test_different_label_names_between_splits_fail(data, tmp_path):

    folders = data.write(tmp_path / "data")
    data.labels = Classification(("no", "yes", "maybe"))
    other = data.write(tmp_path / "other")
    (other.raw / "test.parquet").replace(folders.raw / "test.parquet")
    results = check_tables(derive_tables(data.params, folders, None))
    assert failed_columns(results) == [
        "expected raw names of labels: no, yes, perhaps, found raw names of labels: no, yes, maybe"
    ]
