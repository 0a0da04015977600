"""The stage: the three splits of the contract, the same bytes each time, at most so many rows, and where they
came from."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from stages.download import main
from tests.conftest import ROOT
from tests.stages.download.made import GOOD, TRAIN, write_params, write_source
from tuneline.core.runtime.errors import ParamsError
from tuneline.judge.metrics.scores import averaging
from tuneline.model.tasks import Classification
from tuneline.model.tasks.columns import raw_schema, read_task

RAW = Path("data/raw")
SAMPLE = {"source": "sample", "text_columns": ["subject", "body"], "label_column": "queue"}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, and the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def outs() -> dict[str, bytes]:
    """What the stage left, by name."""
    return {path.name: path.read_bytes() for path in RAW.iterdir()}


def column(split: str, name: str) -> list[object]:
    return list(pq.read_table(RAW / f"{split}.parquet")[name].to_pylist())


def test_the_sample_is_written_as_the_contract_says_by_the_command():
    write_params({**SAMPLE, "sample": {"rows": 500, "mislabelled": 0.03}})
    command = [sys.executable, "-m", "stages.download"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT)})
    assert "train 400, validation 50, test 50 rows" in ended.stdout
    assert set(outs()) == {"train.parquet", "validation.parquet", "test.parquet", "source.json"}
    labels = Classification(("account", "billing", "delivery", "returns", "technical"))
    for split, rows in (("train", 400), ("validation", 50), ("test", 50)):
        table = pq.read_table(RAW / f"{split}.parquet")
        assert table.schema.equals(raw_schema(["subject", "body"], labels), check_metadata=True)
        assert table.num_rows == rows
        assert table["idx"].to_pylist() == list(range(rows))
        assert sum(column.null_count for column in table.columns) == 0
    assert json.loads(Path("reports/timing/download.json").read_text())["rows"] == 500


def test_the_same_parameters_write_the_same_bytes():
    write_params({**SAMPLE, "sample": {"rows": 500}})
    main()
    once = outs()
    main()
    assert outs() == once


@pytest.mark.parametrize(
    ("labels", "data", "rare"),
    [
        (["OFFENSE", "OTHER", "OTHER"], {}, "OFFENSE"),
        (["ham", "ham", "spam"], {}, "spam"),
        (["0", "1", "1"], {}, "0"),
        (["0", "1", "1"], {"label_names": ["broken", "fine"]}, "broken"),
        (["ham", "spam"], {}, "spam"),
    ],
)
def test_f1_of_two_classes_is_of_the_rarer_one_in_train(project: Path, labels, data, rare):
    rows = [f"text {number},{label}\n" for number, label in enumerate(labels)]
    test = [f"new {number},{label}\n" for number, label in enumerate(sorted(set(labels), reverse=True))]
    files = {"train.csv": rows, "validation.csv": test, "test.csv": test}
    write_source(
        project / "data/source", {name: "text,label\n" + "".join(rows) for name, rows in files.items()}
    )
    write_params(data)
    main()
    task = read_task(pq.read_schema(RAW / "test.parquet"))
    assert task.names[averaging(task)] == rare


def test_nothing_of_this_machine_stands_in_the_outs(project: Path):
    write_source(project / "data/source", GOOD)
    write_params({})
    main()
    assert not [name for name, content in outs().items() if str(project).encode() in content]


def test_source_json_says_where_the_rows_came_from(project: Path):
    write_source(project / "data/source", GOOD)
    write_params({"splits": {"train": "train", "validation": "validation", "test": "test"}})
    main()
    assert json.loads((RAW / "source.json").read_text()) == {
        "source": "files",
        "files": {
            "train": "data/source/train.csv",
            "validation": "data/source/validation.csv",
            "test": "data/source/test.csv",
        },
        "splits": {
            "train": {"from": "train", "rows": 4, "left_out": 0},
            "validation": {"from": "validation", "rows": 2, "left_out": 0},
            "test": {"from": "test", "rows": 2, "left_out": 0},
        },
        "label_names": ["ham", "spam"],
    }


def test_at_most_so_many_rows_are_drawn_from_each_split_in_their_order():
    write_params({**SAMPLE, "sample": {"rows": 1000}, "max_rows": 120})
    main()
    train, test = column("train", "idx"), column("test", "idx")
    assert len(train) == 120
    assert train == sorted(set(train))
    assert max(train) > 600  # drawn from all of it, not cut off
    assert test == list(range(100))  # a split that is smaller stays whole


def test_a_quick_run_draws_the_same_rows_each_time_and_others_with_another_seed():
    drawn = []
    for seed in (1, 1, 2):
        write_params({**SAMPLE, "sample": {"rows": 500}, "max_rows": 30}, seed=seed)
        main()
        drawn.append(column("train", "idx"))
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_quick_run_keeps_the_classes_of_the_whole(project: Path):
    rare = "text,label\n" + "".join(f"text {row},common\n" for row in range(200)) + "one,rare\n"
    write_source(
        project / "data/source",
        {
            **GOOD,
            "train.csv": rare,
            "validation.csv": "text,label\na,rare\n",
            "test.csv": "text,label\na,common\n",
        },
    )
    write_params({"max_rows": 2})
    main()
    assert read_task(pq.read_schema(RAW / "train.parquet")).names == ("common", "rare")


def test_an_error_in_the_last_split_leaves_what_was_there(project: Path):
    write_source(project / "data/source", GOOD)
    write_params({})
    main()
    once = outs()
    write_source(project / "data/source", {"train.csv": TRAIN, "test.csv": "text,label\nwin,spam\nlose\n"})
    with pytest.raises(Exception, match=r"test\.csv, line 3"):
        main()
    assert outs() == once
    assert {path.name for path in Path("data").iterdir()} == {"raw", "source"}


def test_what_a_killed_run_left_is_swept_away(project: Path):
    write_source(project / "data/.raw.0123abcd.partial/staging", {"0.parquet": "half a file"})
    write_source(project / "data/source", GOOD)
    write_params({})
    main()
    assert {path.name for path in Path("data").iterdir()} == {"raw", "source"}
    assert "staging" not in outs()


@pytest.mark.parametrize(
    ("section", "values"),
    [("decide", {"costs": {"of": {"spma": {"ham": 2}}}}), ("train", {"class_weights": {"spma": 2.0}})],
)
def test_class_that_a_later_stage_would_not_know_is_refused(project: Path, section, values):
    write_source(project / "data/source", GOOD)
    write_params({}, **{section: values})
    with pytest.raises(ParamsError, match=r"'spma' is not a class of the data: ham, spam"):
        main()
