"""Which rows are new."""

import pyarrow as pa

from flows.ingestion.known import ClassNames, NewRowSelection, RowHashes, RowStatus
from tests.params import params


def hashed(*rows: tuple[str, str, str | None], held_out: bool = False) -> RowHashes:
    """Rows of a text, a label and a key."""
    texts, labels, keys = zip(*rows, strict=True)
    return RowHashes.of(
        [pa.array(texts)], pa.array(labels, pa.string()), pa.array(keys, pa.string()), held_out=held_out
    )


def judged(known: list[RowHashes], *rows: tuple[str, str, str | None]) -> list[str]:
    return [
        RowStatus(status).name for status in NewRowSelection(RowHashes.joined(known)).classify(hashed(*rows))
    ]


def test_row_of_the_data_is_a_duplicate_whatever_its_case_and_white_space():
    known = [hashed(("Where is my parcel?", "delivery", None))]
    rows = [("where is  my parcel?", "delivery", None), ("where is my parcel", "delivery", None)]
    assert judged(known, *rows) == ["DUPLICATE", "NEW"]


def test_row_with_another_label_is_a_conflict():
    known = [hashed(("a", "yes", "1"), ("b", "yes", None))]
    rows = [("a", "no", None), ("c", "no", "1"), ("b", "yes", None), ("c", "yes", "1")]
    assert judged(known, *rows) == ["CONFLICT", "CONFLICT", "DUPLICATE", "DUPLICATE"]


def test_row_of_validation_or_test_is_held_out():
    known = [hashed(("a", "yes", None)), hashed(("b", "yes", None), ("d", "yes", None), held_out=True)]
    assert judged(known, ("b", "yes", None), ("B ", "no", None), ("c", "yes", None)) == [
        "HELD_OUT",
        "CONFLICT",
        "NEW",
    ]


def test_first_of_equal_new_rows_counts_also_across_files():
    selection = NewRowSelection(RowHashes.joined([]))
    first = selection.classify(
        hashed(("a", "yes", "1"), ("a", "yes", "2"), ("b", "no", "1"), ("b", "no", "3"))
    )
    assert first.tolist() == [RowStatus.NEW, RowStatus.DUPLICATE, RowStatus.CONFLICT, RowStatus.NEW]
    assert selection.classify(hashed(("b", "no", None), ("b", "yes", None))).tolist() == [
        RowStatus.DUPLICATE,
        RowStatus.CONFLICT,
    ]


def test_rows_without_key_are_not_equal():
    assert judged([hashed(("a", "yes", None))], ("b", "no", None), ("c", "yes", None)) == ["NEW", "NEW"]


def test_unlabelled_row_of_the_data_conflicts_with_nothing():
    unlabelled = RowHashes.of([pa.array(["a"])], pa.array([None], pa.string()), None, held_out=True)
    assert judged([unlabelled], ("a", "yes", None)) == ["HELD_OUT"]


def test_label_name_with_decimals_is_found_without_them():
    data = params(data={"label_names": ["0.0", "1.0"]}).data
    assert ClassNames.of(data, frozenset({"0", "1"})).written == {"0": "0.0", "1": "1.0"}
