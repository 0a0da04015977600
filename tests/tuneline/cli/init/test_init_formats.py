"""The layout of a file: what ``tuneline init`` detects is what the stage ``download`` reads."""

import csv
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from stages.download.__main__ import main as download
from tuneline.cli import app
from tuneline.params.loading import load_params

runner = CliRunner(env={"COLUMNS": "200"})


def init(*words):
    return runner.invoke(app, ["init", *map(str, words)])


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


ROWS = [(f'wörds, and "more"; of row {n}', "ab"[n % 2]) for n in range(60)]


def as_csv(path, delimiter=",", encoding="utf-8", header=True):
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows([*([("text", "label")] if header else []), *ROWS])


def as_json(path, opener=open):
    with opener(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text, "label": label}) + "\n" for text, label in ROWS)


WRITERS = {
    "semicolon.csv": lambda path: as_csv(path, ";"),
    "quoted.tsv": lambda path: as_csv(path, "\t"),
    "windows.csv": lambda path: as_csv(path, ";", "cp1252"),
    "bare.csv": lambda path: as_csv(path, header=False),
    "packed.jsonl.gz": lambda path: as_json(path, gzip.open),
    "columns.parquet": lambda path: pq.write_table(
        pa.table({"text": [row[0] for row in ROWS], "label": [row[1] for row in ROWS]}), path
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_download_stage_reads_every_row_of_the_written_files(project, name):
    """The layout that init detects must be the one that the download stage reads."""
    WRITERS[name](project / name)
    done = init(project / name, "--force")
    assert done.exit_code == 0, done.output
    download()
    assert (project / name).read_bytes() in contents(project / "data/source").values()
    (column,) = load_params().data.text_columns
    texts = [
        text
        for split in ("train", "validation", "test")
        for text in pq.read_table(f"data/raw/{split}.parquet")[column].to_pylist()
    ]
    assert sorted(texts) == sorted(text for text, _ in ROWS)


@pytest.mark.real_data
def test_mrpc_is_recognised_and_copied_unchanged(project, shared):
    done = init(shared / "data/mrpc", "--force")
    assert done.exit_code == 0, done.output
    data = load_params().data
    assert data.split is None
    assert (data.text_columns, data.label_column, data.files.quoting) == (
        ["#1 String", "#2 String"],
        "Quality",
        None,
    )
    for split in ("train", "validation", "test"):
        assert (project / f"data/source/mrpc/{split}.tsv").read_bytes() == (
            shared / f"data/mrpc/{split}.tsv"
        ).read_bytes()


def test_guessed_encoding_is_pointed_out_and_a_named_one_is_used(project):
    rows = "".join(f"{'ab'[n % 2]},žlutý kůň {n}\n" for n in range(40))
    (project / "a.csv").write_bytes(f"label,text\n{rows}".encode("cp1250"))
    guessed = init(project / "a.csv", "--force")
    assert "is read as cp1252" in guessed.output
    assert load_params().data.files.encoding == "cp1252"
    named = init(project / "a.csv", "--force", "--encoding", "cp1250")
    assert "is read as" not in named.output
    assert "žlutý kůň" in named.output
    assert load_params().data.files.encoding == "cp1250"
