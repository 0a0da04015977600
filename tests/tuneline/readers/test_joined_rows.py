"""One row per text and label: rows of the same texts become one."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tuneline.readers.joined_rows import join_rows

SCHEMA = pa.schema([("text_0", pa.string()), ("label", pa.list_(pa.string())), ("position", pa.int64())])


def batches_of(rows, size):
    for start in range(0, len(rows), size):
        texts, labels = zip(*rows[start : start + size], strict=True)
        positions = range(start + 1, start + 1 + len(texts))
        yield pa.record_batch(
            [pa.array(texts, pa.string()), pa.array(labels, SCHEMA.field(1).type), pa.array(positions)],
            schema=SCHEMA,
        )


def joined(rows, size=2):
    batches = join_rows(batches_of(rows, size), ["text_0"], "label")
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_rows_of_a_text_are_joined_over_the_whole_file():
    rows = [("x", ["b"]), ("y", ["a"]), ("z", []), ("y", ["a"]), ("x", ["a"]), ("z", ["c"])]
    assert joined(rows) == [("x", ["a", "b"], 1), ("y", ["a"], 2), ("z", ["c"], 3)]


def test_rows_without_label_or_text_stay_as_they_are_so_that_each_is_reported():
    rows = [("x", ["a"]), ("x", None), ("x", None), (" ", ["a"]), (" ", ["b"]), (None, ["a"])]
    assert joined(rows) == [
        ("x", ["a"], 1),
        ("x", None, 2),
        ("x", None, 3),
        (" ", ["a"], 4),
        (" ", ["b"], 5),
        (None, ["a"], 6),
    ]


def test_no_rows_are_joined_to_none():
    assert joined([]) == []


@given(
    st.lists(
        st.tuples(st.sampled_from("uvwxyz"), st.one_of(st.just([]), st.sampled_from([["a"], ["b"], ["c"]])))
    ),
    st.integers(1, 5),
)
def test_joined_rows_are_those_of_a_dictionary(rows, size):
    expected = {}
    for text, labels in rows:
        expected.setdefault(text, set()).update(labels)
    assert [(text, labels) for text, labels, _ in joined(rows, size)] == [
        (text, sorted(labels)) for text, labels in expected.items()
    ]
