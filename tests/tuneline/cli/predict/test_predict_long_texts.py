"""Documents longer than the model, of a model that reads them in windows."""

import json

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.exported_pipeline import published_pipeline
from tests.small_pipeline import WORDS
from tests.tuneline.cli.predict.conftest import lines_of
from tuneline.cli import app

LONG = " ".join(WORDS * 3)
ROWS = [{"subject": "the parcel", "body": LONG}, {"subject": "order", "body": "is now late again"}]


@pytest.fixture
def predict_windows(tmp_path_factory, tmp_path, monkeypatch):
    """Run ``tuneline predict`` on two rows, with a model that reads windows."""
    models = published_pipeline(tmp_path_factory, "classification", "windows") / "models/onnx"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))

    def run(*words, path="rows.jsonl"):
        return CliRunner().invoke(app, ["predict", path, "--model", str(models), *map(str, words)])

    return run


def test_deciding_window_is_added_to_each_prediction(predict_windows):
    plain, with_windows = predict_windows(), predict_windows("--deciding-window")
    assert with_windows.exit_code == 0, with_windows.output
    rows = lines_of(with_windows.stdout)
    assert rows[0]["window"] in range(1, 5)
    assert rows[0]["window_text"] in LONG
    assert rows[0]["window_text"] != LONG
    assert (rows[1]["window"], rows[1]["window_text"]) == (1, "is now late again")
    for row in rows:
        del row["window"], row["window_text"]
    assert rows == lines_of(plain.stdout)


def test_deciding_window_and_the_words_without_which_the_answer_changes_go_together(predict_windows):
    first, second = lines_of(predict_windows("--deciding-window", "--why").stdout)
    assert list(first)[-3:] == ["window", "window_text", "why"]
    assert {word["column"] for word in first["why"]} <= {"subject", "body"}
    assert len(first["why"]) == len(second["why"]) == 5


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_deciding_window_is_a_number_and_a_text_in_each_format(predict_windows, kind, tmp_path):
    done = predict_windows("--deciding-window", "--keep", "body", "--output", f"out.{kind}")
    assert done.exit_code == 0, done.output
    if kind == "csv":
        header, *_ = (tmp_path / "out.csv").read_text().splitlines()
        assert header.endswith(",window,window_text")
    else:
        table = pq.read_table(tmp_path / "out.parquet")
        assert table["window"].to_pylist()[1] == 1
        assert table["window_text"].to_pylist()[1] == "is now late again"


def test_folder_of_results_is_made_again_with_the_deciding_window(predict_windows, tmp_path):
    for words in [(), ("--deciding-window",)]:
        done = predict_windows(*words, "--output", f"{tmp_path}/out/")
        assert done.exit_code == 0, done.output
    (path,) = (tmp_path / "out").glob("*.parquet")
    assert pq.read_schema(path).names[-2:] == ["window", "window_text"]


def test_column_with_the_name_of_the_window_is_renamed(predict_windows, tmp_path):
    (tmp_path / "named.jsonl").write_text(json.dumps({**ROWS[1], "window": "bay"}) + "\n")
    (row,) = lines_of(predict_windows("--deciding-window", "--keep", "window", path="named.jsonl").stdout)
    assert (row["input_window"], row["window"]) == ("bay", 1)


def test_rows_with_more_than_all_windows_hold_are_counted(predict_windows, tmp_path):
    (tmp_path / "long.jsonl").write_text(json.dumps({**ROWS[0], "body": LONG * 9}) + "\n")
    done = predict_windows(path="long.jsonl")
    assert (
        "1 of 1 rows (100.0%) are longer than 4 windows of 24 tokens: the model did not read" in done.stderr
    )


def test_pair_of_two_long_texts_is_named_with_the_way_out(predict_windows, tmp_path):
    (tmp_path / "long.jsonl").write_text(json.dumps({"subject": LONG, "body": LONG}) + "\n")
    done = predict_windows(path="long.jsonl")
    assert done.exit_code != 0
    assert "row 1: the shorter of the two texts leaves" in done.output
    assert "tokenize.windows.stride" in done.output


def test_deciding_window_of_a_model_that_truncates_is_refused(predict):
    done = predict("-", "--deciding-window", given=b'{"subject": "a", "body": "b"}\n')
    assert done.exit_code == 1
    assert "--deciding-window" in done.output
    assert "tokenize.long_text: windows" in done.output
