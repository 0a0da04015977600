"""Bad rows are left out within ``data.max_bad_share``, counted and listed with their place."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from stages.download import main
from tests.stages.download.made import GOOD, write_params, write_source
from tuneline.core.runtime.errors import DataError

SKIP = {"max_bad_share": 0.5}
QUESTIONS = [f"{number}\twhat is {number}\twhich number is {number}\t{number % 2}" for number in range(300)]


def skipped() -> list[dict[str, Any]]:
    return pq.read_table("reports/download/skipped.parquet").to_pylist()


def test_one_broken_line_of_a_tsv_need_not_be_mended(download, capsys):
    """As in QQP, whose train file has one row of four columns instead of six."""
    lines = ["id\tquestion1\tquestion2\tis_duplicate", *QUESTIONS]
    lines[17:17] = ["16a\tthe tab is mis\tsing"]
    data = {"text_columns": ["question1", "question2"], "label_column": "is_duplicate"}
    held_out = "id\tquestion1\tquestion2\tis_duplicate\n1\ta\tb\t0\n2\tc\td\t1\n"
    with pytest.raises(
        DataError,
        match=(
            r"train.tsv, line 18: 3 columns, but 4 in the header.\n  .* To leave out such rows:"
            r" data.max_bad_share 0.01"
        ),
    ):
        download({"train.tsv": "\n".join(lines), "validation.tsv": held_out, "test.tsv": held_out}, data)
    tables = download({}, {**data, **SKIP})
    assert {name: table.num_rows for name, table in tables.items()} == {
        "train": 300,
        "validation": 2,
        "test": 2,
    }
    assert json.loads(Path("metrics/download.json").read_text()) == {
        "bad_rows": 1,
        "test_rows": 2,
        "train_rows": 300,
        "validation_rows": 2,
    }
    reason = "3 columns, but 4 in the header"
    assert skipped() == [{"split": "train", "file": "data/source/train.tsv", "line": 18, "reason": reason}]
    assert "300 rows; bad rows left out: 1, in reports/download/skipped.parquet" in capsys.readouterr().out


def test_file_with_too_many_bad_rows_is_an_error_that_lists_all_of_them(project):
    write_source(
        Path("data/source"),
        {**GOOD, "validation.csv": "text,label\na,ham\n" + "well, well,spam\n" * 7 + ",ham\nb,\n"},
    )
    write_params({**SKIP, "max_bad_share": 0.8})
    with pytest.raises(DataError) as raised:
        main()
    assert str(raised.value).splitlines()[:-1] == [
        "data/source/validation.csv: 9 of 10 rows are bad (90.00%), more than 0.8.",
        *[f"  line {line}: 3 columns, but 2 in the header" for line in range(3, 8)],
        "  and 4 more",
    ]
    assert [row["line"] for row in skipped()] == list(range(3, 12))
    assert not Path("data/raw").exists()
    assert not Path("metrics/download.json").exists()


def test_every_kind_of_bad_row_is_left_out_with_its_reason(download):
    objects = [
        {"text": "see you", "label": "ham"},
        {"text": 7, "label": "ham"},
        {"text": "a", "label": ["ham", "spam"]},
        {"text": "b", "label": 0.5},
        {"text": None, "label": "ham"},
        {"text": "c"},
        {"text": "you won", "label": "spam"},
    ]
    lines = [
        *(json.dumps(value) for value in objects),
        "{'text'",
        *(json.dumps(objects[0]) for _ in range(9)),
    ]
    quoted = 'text,label\nwin,spam\n"never closed,ham\n' + "no lunch,ham\n" * 3
    tables = download(
        {"train.jsonl": "\n".join(lines), "validation.csv": GOOD["validation.csv"], "test.csv": quoted},
        {**SKIP, "max_bad_share": 0.8},
    )
    assert {name: table.num_rows for name, table in tables.items()} == {
        "train": 11,
        "validation": 2,
        "test": 1,
    }
    reasons = {row["line"]: row["reason"] for row in skipped() if row["split"] == "train"}
    assert reasons == {
        2: "column 'text' is a number, not text",
        3: "column 'label': a label is text or a number, not a list",
        4: "column 'label': the label is a fraction, not a class",
        5: "column 'text': no text (null)",
        6: "column 'label': no label",
        8: reasons[8],
    }
    assert reasons[8].startswith("not JSON: ")
    *_, label, swallowed = skipped()
    assert (label["line"], swallowed["line"]) == (6, 3)
    assert json.loads(Path("metrics/download.json").read_text())["bad_rows"] == 6 + 4, (
        "nobody knows how many rows a lost quote has taken"
    )
