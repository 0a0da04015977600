"""Labels that are sets of names, in each layout in which files have them."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tuneline.params.data import LabelSetsParams
from tuneline.readers.formats import FORMATS
from tuneline.readers.label_sets import parse_list
from tuneline.readers.label_values import ValueProblemError
from tuneline.readers.labelled import LabelledColumns, labelled_rows
from tuneline.readers.rows import STOP, BadRowPolicy, BadRows
from tuneline.readers.tables import Input, open_table
from tuneline.runtime.errors import DataError, ParamsError
from tuneline.tasks import Multilabel

SEPARATED = LabelSetsParams(layout="separated", separator=";")
LISTS = LabelSetsParams(layout="lists")
COLUMNS = LabelSetsParams(layout="columns", columns=["toxic", "obscene"])
ROWS = LabelSetsParams(layout="rows")


def read(path, sets, policy=STOP, **columns):
    """Return the labels of a file with a column of texts, and the positions of its rows."""
    kind = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet"}[path.suffix]
    source = Input(path, FORMATS[kind].usual)
    bad = BadRows(path.name, source.unit, policy)
    read_columns = LabelledColumns(("text",), "tags", Multilabel(()), sets=sets, policy=policy, **columns)
    with open_table(source) as table:
        batches = list(labelled_rows(table, read_columns, bad))
    table = pa.Table.from_batches(batches, read_columns.schema)
    return table["label"].to_pylist(), table["position"].to_pylist()


def write(folder, rows):
    """Write rows as CSV; each is the end of a line, after the text."""
    path = folder / "in.csv"
    lines = [f"text {number},{row}" for number, row in enumerate(rows[1:], start=1)]
    path.write_text("\n".join([f"text,{rows[0]}", *lines]) + "\n")
    return path


def write_json(folder, labels):
    path = folder / "in.jsonl"
    rows = [{"text": f"text {number}", "tags": tags} for number, tags in enumerate(labels)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_parquet(folder, labels, metadata=None):
    table = pa.table({"text": [f"text {number}" for number in range(len(labels))], "tags": labels})
    pq.write_table(table.replace_schema_metadata(metadata), folder / "in.parquet")
    return folder / "in.parquet"


def test_separated_names_are_trimmed_and_repeats_and_empty_parts_are_dropped(tmp_path):
    path = write(tmp_path, ["tags", "b; a", "a;;a ;", "", " ", "7.0;7", "c"])
    labels, positions = read(path, SEPARATED)
    assert labels == [["a", "b"], ["a"], [], [], ["7"], ["c"]]
    assert positions == [2, 3, 4, 5, 6, 7]


def test_separator_may_have_several_characters(tmp_path):
    path = write(tmp_path, ["tags", "a :: b", "a"])
    assert read(path, LabelSetsParams(layout="separated", separator="::"))[0] == [["a", "b"], ["a"]]


@pytest.mark.parametrize("sets", [SEPARATED, LISTS, ROWS])
def test_null_is_missing_and_empty_is_a_label(tmp_path, sets):
    assert read(write_json(tmp_path, ["", None]), sets)[0] == [[], None]
    assert read(write_parquet(tmp_path, pa.array(["", None])), sets)[0] == [[], None]


@pytest.mark.parametrize("sets", [SEPARATED, ROWS])
def test_word_for_no_labels_that_people_read_is_no_label(tmp_path, sets):
    assert read(write_json(tmp_path, ["(none)", "a"]), sets)[0] == [[], ["a"]]


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ('["a", "b"]', ["a", "b"]),
        ("['a', 'b']", ["a", "b"]),
        ("['a' 'b'\n 'c']", ["a", "b", "c"]),
        ("[a, very good]", ["a", "very good"]),
        ("('a',)", ["a"]),
        ("{'a', 'b'}", ["a", "b"]),
        ("""['it\\'s', "don't"]""", ["it's", "don't"]),
        ("['a, b', 'c']", ["a, b", "c"]),
        ("[]", []),
        ("", []),
    ],
)
def test_lists_as_text_are_those_of_json_python_and_numpy(text, elements):
    assert parse_list(text) == elements


@pytest.mark.parametrize("text", ["a", "['a'", "['a']['b']", '{"a": 1}', "['a' b]", "[['a']", "[" * 9999])
def test_text_that_is_no_list_is_refused(text):
    with pytest.raises(ValueProblemError, match="not a list") as refused:
        parse_list(text)
    assert "flat list" in refused.value.hint


@pytest.mark.parametrize(
    "labels",
    [
        pa.array([["b", "a"], [], None, ["a", "a"]]),
        pa.array([["b", "a"], [], None, ["a"]], pa.large_list(pa.large_string())),
        pa.array(["['b', 'a']", "[]", None, '["a"]']),
    ],
    ids=lambda labels: str(labels.type),
)
def test_lists_of_parquet_are_sets(tmp_path, labels):
    assert read(write_parquet(tmp_path, labels), LISTS)[0] == [["a", "b"], [], None, ["a"]]


def test_lists_of_dictionaries_and_of_fixed_size_are_sets(tmp_path):
    plain = pa.array([["b", "a"], ["a", "c"]])
    coded = pa.ListArray.from_arrays(plain.offsets, plain.values.dictionary_encode())
    assert read(write_parquet(tmp_path, coded), LISTS)[0] == [["a", "b"], ["a", "c"]]
    fixed = pa.array([[2, 1], [1, 3]], pa.list_(pa.int8(), 2))
    assert read(write_parquet(tmp_path, fixed), LISTS)[0] == [["1", "2"], ["1", "3"]]


def test_lists_of_parquet_are_read_in_any_layout(tmp_path):
    """Flow ingest writes its batches so, whatever the layout of the user's files."""
    path = write_parquet(tmp_path, pa.array([["toxic"], []]))
    for sets in (SEPARATED, COLUMNS, ROWS):
        assert read(path, sets)[0] == [["toxic"], []]


@pytest.mark.parametrize("kind", ["Sequence", "List"])
def test_ids_of_the_datasets_library_are_the_names_that_it_stored(tmp_path, kind):
    feature = {"feature": {"names": ["joy", "anger"], "_type": "ClassLabel"}, "_type": kind}
    metadata = {"huggingface": json.dumps({"info": {"features": {"tags": feature}}})}
    path = write_parquet(tmp_path, pa.array([[1, 0], [], [0], [-1]], pa.list_(pa.int64())), metadata)
    assert read(path, LISTS)[0] == [["anger", "joy"], [], ["joy"], None]


def test_long_text_in_a_list_is_named_with_its_row(tmp_path):
    path = write_parquet(tmp_path, pa.array([["a"], [], ["b", "x" * 2**20 + "x"]]))
    with pytest.raises(DataError, match="row 3, column 'tags'"):
        read(path, LISTS)


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ([["a"], [["b"]]], "a list in it"),
        ([["a"], ["b", None]], "null in it"),
        ([["a"], [{"name": "b"}]], "an object in it"),
        ([["a"], "b"], "not a list"),
        ([["a"], 7], "a number, not a list"),
        ([["a"], ["\ud800"]], "unpaired surrogate"),
    ],
)
def test_list_with_something_else_than_names_is_refused_with_its_line(tmp_path, labels, problem):
    with pytest.raises(DataError, match=rf"in\.jsonl, line 2, column 'tags': .*{problem}") as refused:
        read(write_json(tmp_path, labels), LISTS)
    assert refused.value.hint


def test_list_in_a_column_of_separated_names_says_which_layout_it_is(tmp_path):
    with pytest.raises(DataError, match="line 2, column 'tags'") as refused:
        read(write_json(tmp_path, ["a;b", ["a"]]), SEPARATED)
    assert "layout: lists" in refused.value.hint


def test_bad_sets_can_be_left_out(tmp_path):
    path = write_json(tmp_path, [["a"], 7, ["b"]])
    labels, positions = read(path, LISTS, BadRowPolicy("skip", 1.0))
    assert labels == [["a"], ["b"]]
    assert positions == [1, 3]


@pytest.mark.parametrize(
    ("yes", "no"),
    [("1", "0"), ("1.0", "0.0"), ("True", "False"), ("yes", "no"), ("Y", "n"), ("x", "")],
)
def test_columns_have_ones_and_zeros_or_words_for_them(tmp_path, yes, no):
    rows = [f"{yes},{no}", f"{no},{yes}", f"{yes},{yes}", f"{no},{no}"]
    labels, _ = read(write(tmp_path, ["toxic,obscene", *rows]), COLUMNS)
    assert labels == [["toxic"], ["obscene"], ["obscene", "toxic"], []]


@pytest.mark.parametrize("kind", [pa.int8(), pa.float32(), pa.bool_(), pa.large_string()])
def test_columns_of_parquet_are_of_any_type(tmp_path, kind):
    columns = {
        "text": ["a", "b"],
        "toxic": pa.array([1, None]).cast(kind),
        "obscene": pa.array([0, 1]).cast(kind),
    }
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    assert read(tmp_path / "in.parquet", COLUMNS)[0] == [["toxic"], None]


def test_minus_one_in_a_column_is_a_missing_label(tmp_path):
    """Test rows that nobody has labelled."""
    assert read(write(tmp_path, ["toxic,obscene", "1,0", "-1,-1"]), COLUMNS)[0] == [["toxic"], None]


def test_number_that_is_not_0_or_1_is_refused_with_its_column(tmp_path):
    with pytest.raises(DataError, match=r"in\.csv, line 3, column 'obscene'.*not 0 or 1") as refused:
        read(write(tmp_path, ["toxic,obscene", "1,0", "0,2"]), COLUMNS)
    assert "'2'" in refused.value.hint


def test_missing_column_of_a_label_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no column 'obscene' \(data.label_sets\)"):
        read(write(tmp_path, ["toxic", "1"]), COLUMNS)


def test_file_without_labels_may_lack_all_their_columns_but_not_some(tmp_path):
    assert read(write(tmp_path, ["id", "1"]), COLUMNS, optional=["tags"])[0] == [None]
    with pytest.raises(DataError, match="no column 'toxic'"):
        read(write(tmp_path, ["obscene", "1"]), COLUMNS, optional=["tags"])


def test_json_object_without_the_column_of_a_label_is_refused_with_its_line(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "a", "toxic": 1, "obscene": 0}\n{"text": "b", "toxic": 1}\n')
    with pytest.raises(DataError, match="line 2: no column 'obscene'"):
        read(tmp_path / "in.jsonl", COLUMNS)


def test_bad_row_shows_the_columns_of_its_labels(tmp_path):
    reported = []
    path = write(tmp_path, ["toxic,obscene", "1,0", "0,2"])
    policy = BadRowPolicy("skip", 1.0)
    bad = BadRows("in.csv", "line", policy, reported.append)
    columns = LabelledColumns(("text",), "tags", Multilabel(()), sets=COLUMNS, policy=policy)
    with open_table(Input(path, FORMATS["csv"].usual)) as table:
        list(labelled_rows(table, columns, bad))
    assert json.loads(reported[0].content) == {"text": "text 2", "toxic": "0", "obscene": "2"}


def test_labels_that_nobody_described_are_refused(tmp_path):
    with pytest.raises(ParamsError, match=r"data\.label_sets"):
        read(write(tmp_path, ["tags", "a"]), None)


VECTORS = LabelSetsParams(layout="vectors")
NAMES = LabelSetsParams(layout="name_columns", columns=["first", "second"])


def test_names_in_brackets_are_separated_by_the_inner_ones(tmp_path):
    brackets = LabelSetsParams(layout="separated", separator="><")
    labels, _ = read(write(tmp_path, ["tags", "<b><a>", "<a>", "", "<c-d><a b>"]), brackets)
    assert labels == [["a", "b"], ["a"], [], ["a b", "c-d"]]


@pytest.mark.parametrize("form", ["0110", "[0 1 1 0]", "0 1 1 0", '"[0, 1, 1, 0]"', '"0,1,1,0"'])
def test_vector_has_the_positions_of_its_ones(tmp_path, form):
    labels, _ = read(write(tmp_path, ["tags", form, "0000", ""]), VECTORS)
    assert labels == [["1", "2"], [], None]


def test_vector_of_json_is_a_list(tmp_path):
    labels, _ = read(write_json(tmp_path, [[0, 1, 0], [1, 0, 0]]), VECTORS)
    assert labels == [["1"], ["0"]]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (["tags", "010", "01"], "has 2 elements, that of the first row 3"),
        (["tags", "010", "0x0"], "not a 0 or 1 for each label"),
    ],
)
def test_vector_of_another_length_or_content_is_refused(tmp_path, rows, problem):
    with pytest.raises(DataError, match=problem):
        read(write(tmp_path, rows), VECTORS)


def test_columns_of_names_are_joined(tmp_path):
    labels, _ = read(write(tmp_path, ["first,second", "a,", ",b", "b,a", "a,a", ","]), NAMES)
    assert labels == [["a"], ["b"], ["a", "b"], ["a"], []]
