"""The stage: the three splits of the contract, the same bytes each time, at most so many rows, and where they
came from."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.download.__main__ import main
from stages.download.raw_splits import sample_rows
from tests.conftest import ROOT
from tests.stages.download.made import GOOD, TRAIN, write_params, write_source
from tuneline.core.tables import ROW_GROUP
from tuneline.tasks import Classification
from tuneline.tasks.schemas import raw_schema, read_task

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


def test_another_seed_writes_other_tickets():
    write_params({**SAMPLE, "sample": {"rows": 500}})
    main()
    once = outs()
    write_params({**SAMPLE, "sample": {"rows": 500}}, seed=43)
    main()
    assert outs()["train.parquet"] != once["train.parquet"]


def test_nothing_of_this_machine_stands_in_the_outs(project: Path):
    write_source(project / "data/source", GOOD)
    write_params({})
    main()
    assert not [name for name, content in outs().items() if str(project).encode() in content]


def test_source_json_says_where_the_rows_came_from(project: Path):
    write_source(project / "data/source", GOOD)
    write_params({"splits": {"train": "train", "validation": "validation", "test": "test[:50%]"}})
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
            "test": {"from": "test[:50%]", "rows": 1, "left_out": 0},
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


def test_a_quick_run_finds_the_faults_of_a_whole_one(project: Path):
    rows = "".join(f"text {row},{row % 2}\n" for row in range(500))
    write_source(project / "data/source", {**GOOD, "train.csv": f"text,label\n{rows},1\n"})
    write_params({"max_rows": 2})
    with pytest.raises(Exception, match="line 502, column 'text'"):
        main()


def test_rows_are_cut_and_joined_across_row_groups(project: Path):
    """Slices far into a file of several row groups, joined in the order in which they are written."""
    rows = 2 * ROW_GROUP + 500
    write_source(
        project / "data/source",
        {"all.csv": "text,label\n" + "".join(f"text {row},{row % 2}\n" for row in range(rows))},
    )
    start, stop = ROW_GROUP - 5, 2 * ROW_GROUP + 5
    write_params(
        {"splits": {"train": f"all[{start}:{stop}]+all[:10]", "validation": "all[20:22]", "test": "all[-2:]"}}
    )
    main()
    assert column("train", "idx") == [*range(start, stop), *range(10)]
    assert column("train", "text")[:3] == [f"text {start}", f"text {start + 1}", f"text {start + 2}"]
    assert column("train", "labels")[:3] == [start % 2, (start + 1) % 2, start % 2]
    assert column("test", "idx") == [rows - 2, rows - 1]
    assert pq.ParquetFile(RAW / "train.parquet").metadata.row_group(0).num_rows == ROW_GROUP


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
    write_source(project / "data/.raw.partial/staging", {"0.parquet": "half a file"})
    write_source(project / "data/source", GOOD)
    write_params({})
    main()
    assert {path.name for path in Path("data").iterdir()} == {"raw", "source"}
    assert "staging" not in outs()


def test_sample_and_files_import_nothing_heavy():
    """Seconds of start-up, which quick stages do not need."""
    code = (
        "import sys, stages.download.__main__, stages.download.sample, stages.download.files\nfrom"
        " stages.download.source import resolve_split, source_splits\nprint(source_splits('train', 'part.1'),"
        " resolve_split('train', 'part.1', {'part.1': 3}), *sys.modules)"
    )
    modules = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert not {"torch", "transformers", "datasets", "pandas"} & set(modules.stdout.split())


@pytest.mark.parametrize(("rows", "at_most"), [(10, None), (10, 10), (10, 11), (10, 1), (1, 1)])
def test_drawn_rows_are_in_order_without_repeats(rows: int, at_most: int | None):
    drawn = sample_rows(rows, at_most, 5)
    assert len(drawn) == min(rows, at_most or rows)
    assert list(drawn) == sorted(set(drawn))
    assert set(drawn) <= set(range(rows))


def test_the_datasets_library_reads_the_splits_with_their_class_names():
    from datasets import load_dataset

    write_params({**SAMPLE, "sample": {"rows": 100}})
    main()
    data = load_dataset("parquet", data_files=str(RAW / "test.parquet"), split="train", cache_dir="cache")
    assert data.features["labels"].names == ["account", "billing", "delivery", "returns", "technical"]
    assert pa.types.is_string(data.features.arrow_schema.field("body").type)
