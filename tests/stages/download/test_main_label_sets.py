"""Several labels per text: the same rows in every layout, and errors that name what is wrong."""

import json

import pytest

from tests.stages.download.made import parquet
from tuneline.model.tasks import Multilabel
from tuneline.model.tasks.columns import read_task

ROWS = [
    ("late parcel", ["delivery"]),
    ("refund for a broken cup", ["quality", "refund"]),
    ("hello", []),
    ("wrong invoice, late", ["billing", "delivery"]),
]
NAMES = ["billing", "delivery", "quality", "refund"]


def lines(header, rows):
    return "".join(f"{line}\n" for line in [header, *rows])


def separated(rows):
    return lines("text,tags", [f'"{text}",{" | ".join(names)}' for text, names in rows])


def as_text(rows):
    return lines("text,tags", [f'"{text}","{names}"' for text, names in rows])


def json_lines(rows):
    return lines("", [json.dumps({"text": text, "tags": names}) for text, names in rows])


def columns(rows):
    ones = [",".join(str(int(name in names)) for name in NAMES) for _, names in rows]
    return lines(
        f"text,{','.join(NAMES)}", [f'"{text}",{line}' for (text, _), line in zip(rows, ones, strict=True)]
    )


def lists(rows):
    return parquet([{"text": text, "tags": names} for text, names in rows])


LAYOUTS = [
    ("csv", separated, {"layout": "separated", "separator": "|"}),
    ("csv", as_text, {"layout": "lists"}),
    ("jsonl", json_lines, {"layout": "lists"}),
    ("parquet", lists, {"layout": "lists"}),
    ("csv", columns, {"layout": "columns", "columns": NAMES}),
]


@pytest.fixture
def download_sets(download):
    """Runs the stage on rows, the same in each split, in a layout."""

    def run(ending, write, sets, rows=ROWS, **data):
        files = {f"{split}.{ending}": write(rows) for split in ("train", "validation", "test")}
        return download(files, {"task": "multilabel", "label_column": "tags", "label_sets": sets, **data})

    return run


@pytest.mark.parametrize(
    ("ending", "write", "sets"), LAYOUTS, ids=lambda value: getattr(value, "__name__", None)
)
def test_every_layout_gives_the_same_rows(download_sets, ending, write, sets):
    train = download_sets(ending, write, sets)["train"]
    assert read_task(train.schema) == Multilabel(tuple(NAMES))
    assert train["text"].to_pylist() == [text for text, _ in ROWS]
    assert train["labels"].to_pylist() == [[1], [2, 3], [], [0, 1]]


def test_test_split_whose_sets_are_all_empty_has_no_labels(download):
    """People publish test rows with an empty column for the labels."""
    data = {
        "task": "multilabel",
        "label_column": "tags",
        "label_sets": {"layout": "separated", "separator": "|"},
    }
    files = {
        "train.csv": separated(ROWS),
        "validation.csv": separated(ROWS),
        "test.csv": separated([(text, []) for text, _ in ROWS]),
    }
    train = {"keep": "last", "thresholds": {"choose": "half"}}
    tables = download(files, data, evaluate={"split": "validation"}, train=train)
    assert tables["test"]["labels"].to_pylist() == [[-1]] * len(ROWS)
