"""Files as people have them: the same rows, however they are written."""

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.stages.download.made import GOOD, TRAIN
from tuneline.model.tasks import Regression
from tuneline.model.tasks.columns import read_task
from tuneline.rows.reading.formats import FORMATS
from tuneline.rows.reading.labelled import LabelledColumns, labelled_rows
from tuneline.rows.reading.rows import STOP, BadRows
from tuneline.rows.reading.tables import open_table

ROWS = [("free money", "spam"), ("see you at six", "ham"), ("you won", "spam"), ("lunch?", "ham")]
TSV = TRAIN.replace(",", "\t")
JSONL = "".join(json.dumps({"id": 7, "text": text, "label": label}) + "\n" for text, label in ROWS)
PARQUET = [{"id": 7, "text": text, "label": label} for text, label in ROWS]
CRLF = TRAIN.replace("\n", "\r\n")

WAYS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "csv": ("train.csv", TRAIN, {}),
    "csv with the columns in another order": (
        "train.csv",
        "label,id,text\n" + "".join(f"{y},1,{x}\n" for x, y in ROWS),
        {},
    ),
    "csv without header": ("train.csv", TRAIN.partition("\n")[2], {"columns": ["text", "label"]}),
    "csv with a byte order mark": ("train.csv", TRAIN.encode("utf-8-sig"), {}),
    "csv with a byte order mark, without header": (
        "train.csv",
        TRAIN.partition("\n")[2].encode("utf-8-sig"),
        {"columns": ["text", "label"]},
    ),
    "csv with CRLF": ("train.csv", CRLF, {}),
    "csv with semicolons": ("train.csv", TRAIN.replace(",", ";"), {"delimiter": ";"}),
    "csv with white space around labels": (
        "train.csv",
        TRAIN.replace("spam", " spam ").replace("ham", "ham\t"),
        {},
    ),
    "csv in utf-16": ("train.csv", TRAIN.encode("utf-16"), {"encoding": "utf-16"}),
    "tsv": ("train.tsv", TSV, {}),
    "tsv with quotes that enclose": (
        "train.tsv",
        "text\tlabel\n" + "".join(f'"{x}"\t"{y}"\n' for x, y in ROWS),
        {"quoting": "standard"},
    ),
    "jsonl": ("train.jsonl", JSONL, {}),
    "jsonl, packed": ("train.jsonl.gz", JSONL, {}),
    "jsonl with a byte order mark, CRLF and empty lines": (
        "train.jsonl",
        JSONL.replace("\n", "\r\n\r\n").encode("utf-8-sig"),
        {},
    ),
    "parquet": ("train.parquet", PARQUET, {}),
}


@pytest.mark.parametrize(("name", "content", "params"), WAYS.values(), ids=WAYS)
def test_the_same_rows_come_out_however_they_are_written(
    name: str, content: Any, params: dict[str, Any], download
):
    held_out = name.replace("train", "validation"), name.replace("train", "test")
    tables = download({name: content} | dict.fromkeys(held_out, content), {"files": params})
    rows = tables["train"]
    assert rows["text"].to_pylist() == [text for text, _ in ROWS]
    assert rows["labels"].to_pylist() == [1, 0, 1, 0]
    assert rows["idx"].to_pylist() == [0, 1, 2, 3]
    assert {read_task(table.schema).names for table in tables.values()} == {("ham", "spam")}


def test_a_quote_in_a_tsv_is_a_character_and_one_in_a_csv_encloses(download):
    tsv = 'text\tlabel\n"So they say\tham\n"Well\tspam\n'
    csv_ = 'text,label\n"So, they\nsay ""so""",ham\nWell,spam\n'
    tables = download({**GOOD, "train.csv": None, "train.tsv": tsv, "validation.csv": csv_})
    assert tables["train"]["text"].to_pylist() == ['"So they say', '"Well']
    assert tables["validation"]["text"].to_pylist() == ['So, they\nsay "so"', "Well"]


WHOLE_NUMBERS: dict[str, Any] = {
    "a.csv": "text,label\none,1.0\nzero,0.0\nhalf,1.5\nminus,-2.0\ncode,007.0\n",
    "b.csv": "text,label\none, 1 \nzero,-0.0\nhalf,1.5\nminus,-2\ncode,007.0\n",
    "c.jsonl": "".join(
        json.dumps({"text": text, "label": label}) + "\n"
        for text, label in [
            ("one", "1.0"),
            ("zero", "0"),
            ("half", "1.5"),
            ("minus", "-2.0"),
            ("code", "007.0"),
        ]
    ),
}


def test_whole_numbers_with_and_without_decimals_are_the_same_class_in_all_files(download, project):
    """A CSV file of floats writes 1.0; another program writes 1."""
    splits = {"splits": {"train": "a", "validation": "b", "test": "c"}}
    tables = download(WHOLE_NUMBERS, splits)
    assert read_task(tables["train"].schema).names == ("-2", "0", "007.0", "1", "1.5")
    assert {tuple(table["labels"].to_pylist()) for table in tables.values()} == {(3, 1, 4, 0, 2)}

    numbers: dict[str, Any] = {
        "d.csv": "text,label\none,1.0\nzero,0.0\n",
        "e.parquet": [{"text": "one", "label": 1.0}, {"text": "zero", "label": 0.0}],
        "f.jsonl": '{"text": "one", "label": 1}\n{"text": "zero", "label": 0.0}\n',
    }
    splits = {"splits": {"train": "d", "validation": "e", "test": "f"}}
    for names in (None, ["0.0", "1.0"], ["no", "yes"]):
        tables = download(numbers, {**splits, "label_names": names})
        assert read_task(tables["test"].schema).names == tuple(names or ("0", "1"))
        assert {tuple(table["labels"].to_pylist()) for table in tables.values()} == {(1, 0)}


def test_whole_numbers_are_classes_in_the_order_of_their_value(download):
    rows = "".join(f"row {number},{number}\n" for number in (10, 9, 2, 1, 0))
    tables = download(
        {
            **GOOD,
            "train.csv": "text,label\n" + rows,
            "validation.csv": "text,label\na,2\n",
            "test.csv": "text,label\na,10\n",
        }
    )
    assert read_task(tables["train"].schema).names == ("0", "1", "2", "9", "10")
    assert tables["train"]["labels"].to_pylist() == [4, 3, 2, 1, 0]
    assert tables["test"]["labels"].to_pylist() == [4]


@pytest.mark.parametrize(
    "labels", [[0, 1, 1, 0], [0.0, 1.0, 1.0, 0.0], [False, True, True, False], ["no", "yes", "yes", "no"]]
)
def test_labels_of_any_type_in_parquet_are_classes(labels: list[Any], download):
    rows = [{"text": f"text {position}", "label": label} for position, label in enumerate(labels)]
    tables = download({"train.parquet": rows, "validation.parquet": rows[:2], "test.parquet": rows[2:]})
    assert tables["train"]["labels"].to_pylist() == [0, 1, 1, 0]


def test_given_names_fix_the_order_of_the_ids(download):
    tables = download(data={"label_names": ["spam", "ham", "eggs"]})
    assert read_task(tables["train"].schema).names == ("spam", "ham", "eggs")
    assert tables["train"]["labels"].to_pylist() == [0, 1, 0, 1]


def test_class_names_that_the_datasets_library_left_in_parquet_are_kept(download, project):
    from datasets import ClassLabel, Dataset, Features, Value

    features = Features({"text": Value("string"), "label": ClassLabel(names=["spam", "ham"])})
    sink = io.BytesIO()
    Dataset.from_dict({"text": ["a", "b"], "label": [1, 0]}, features).to_parquet(sink)
    packed = sink.getvalue()
    tables = download({"train.parquet": packed, "validation.parquet": packed, "test.parquet": packed})
    assert read_task(tables["train"].schema).names == ("spam", "ham")
    assert tables["train"]["labels"].to_pylist() == [1, 0]


def test_numbers_to_predict_stay_numbers(download):
    scores = "text,label\na,1.5\nb,-2\nc, 3e-1 \n"
    tables = download(
        {"train.csv": scores, "validation.csv": scores, "test.csv": scores}, {"task": "regression"}
    )
    assert tables["train"].schema.field("labels").type == pa.float32()
    assert tables["train"]["labels"].to_pylist() == pytest.approx([1.5, -2, 0.3])
    assert read_task(tables["train"].schema) == Regression()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("test.csv", "text,label\na,\nb,\n"),
        ("test.jsonl", '{"text": "a"}\n{"text": "b"}\n'),
    ],
)
def test_a_test_split_without_labels_will_do_while_validation_is_reported(name: str, content: Any, download):
    tables = download(
        {**GOOD, "test.csv": None, name: content}, evaluate={"split": "validation"}, train={"keep": "last"}
    )
    assert tables["test"]["labels"].to_pylist() == [-1, -1]
    assert read_task(tables["test"].schema).names == ("ham", "spam")


def test_incomplete_rows_are_left_out_and_counted_on_demand(download, project):
    train = "text,label\nfree,spam\n,ham\nsee you,\nlunch,ham\n \t,\n"
    tables = download({**GOOD, "train.csv": train}, {"max_bad_share": 1.0})
    assert tables["train"]["text"].to_pylist() == ["free", "lunch"]
    assert tables["train"]["idx"].to_pylist() == [0, 3]
    assert json.loads((project / "data/raw/source.json").read_text())["splits"]["train"] == {
        "from": "train",
        "rows": 2,
        "left_out": 3,
    }


def read_back(path, kind):
    """The texts and labels of a file."""
    with open_table(FORMATS[kind].usual(path)) as table:
        batches = labelled_rows(table, LabelledColumns(("text",), "label"), BadRows(str(path), "line", STOP))
        read = pa.Table.from_batches(batches)
    return read["text_0"].to_pylist(), read["label"].to_pylist()


field_text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    rows=st.lists(st.tuples(field_text, st.sampled_from(["yes", "no"])), min_size=1, max_size=20),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_a_csv_writer_quotes_is_read_back(rows: list[tuple[str, str]], end: str, tmp_path):
    path = tmp_path / "train.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator=end, quoting=csv.QUOTE_ALL).writerows([("text", "label"), *rows])
    assert list(zip(*read_back(path, "csv"), strict=True)) == rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    rows=st.lists(
        st.tuples(st.text(st.characters(codec="utf-8"), max_size=30), st.integers(-5, 5)),
        min_size=1,
        max_size=20,
    ),
    ascii_=st.booleans(),
)
def test_whatever_a_json_writer_escapes_is_read_back(rows: list[tuple[str, int]], ascii_: bool, tmp_path):
    path = tmp_path / "train.jsonl"
    lines = [json.dumps({"text": text, "label": label}, ensure_ascii=ascii_) for text, label in rows]
    path.write_text("\n".join(lines), encoding="utf-8", newline="")
    texts, labels = read_back(path, "jsonl")
    assert list(zip(texts, map(int, labels), strict=True)) == rows


@pytest.mark.real_data
def test_mrpc_as_glue_publishes_it_is_read_whole(download, project, shared):
    """Its quotes are literal: read as enclosing ones, they silently swallow rows (3570, 389, 1650)."""
    files = {path.name: path.read_bytes() for path in (shared / "data/mrpc").glob("*.tsv")}
    tables = download(files, {"text_columns": ["#1 String", "#2 String"], "label_column": "Quality"})
    assert [tables[split].num_rows for split in ("train", "validation", "test")] == [3668, 408, 1725]
    assert [sum(tables[split]["labels"].to_pylist()) for split in ("train", "validation", "test")] == [
        2474,
        279,
        1147,
    ]
    assert (
        tables["train"]["#1 String"][0]
        .as_py()
        .startswith('Amrozi accused his brother , whom he called " the witness " ,')
    )
    assert pq.read_schema(project / "data/raw/train.parquet").names == [
        "#1 String",
        "#2 String",
        "labels",
        "idx",
    ]
