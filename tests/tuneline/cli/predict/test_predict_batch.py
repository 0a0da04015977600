"""``tuneline predict`` on folders, by either engine."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT
from tests.tuneline.cli.predict.test_predict_process import tuneline
from tests.tuneline.serve import killing
from tuneline.serve import batch

ROWS = 70


def texts(first, count):
    return [
        {"id": number, "subject": f"parcel {number}", "body": "is missing " * (number % 7)}
        for number in range(first, first + count)
    ]


def write_inputs(folder: Path) -> None:
    """Write a folder of a large Parquet file, a CSV file, a JSONL file, and files that are no data."""
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(texts(0, ROWS)), folder / "a.parquet", row_group_size=25)
    lines = [f"{row['id']},{row['subject']},{row['body']}" for row in texts(100, 10)]
    (folder / "b.csv").write_text("\n".join(["id,subject,body", *lines, ""]))
    (folder / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts(200, 10)))
    (folder / "README.md").write_text("Rows to predict.")
    (folder / ".hidden.csv").write_text("no data")


@pytest.fixture
def given(tmp_path, monkeypatch):
    """Inputs in ``in/``."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    write_inputs(tmp_path / "in")


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_folder_has_a_result_for_each_file_and_keeps_those_that_are_newer(given, predict):
    def run(*words):
        done = predict("in", "-o", "out/", *words)
        assert done.exit_code == 0, done.output
        return done.stderr

    assert "90 rows in" in run()
    whole = contents(Path("out"))
    assert sorted(whole) == ["a.parquet", "b.csv.parquet", "c.jsonl.parquet"]
    Path("out/a.parquet").unlink()
    unchanged = Path("out/b.csv.parquet").stat().st_mtime_ns
    assert "2 of 3 results already" in run()
    assert contents(Path("out")) == whole
    assert Path("out/b.csv.parquet").stat().st_mtime_ns == unchanged
    Path("in/b.csv").touch()
    assert "2 of 3 results already" in run()
    assert Path("out/b.csv.parquet").stat().st_mtime_ns != unchanged


def test_results_that_are_older_than_the_model_are_made_again(given, predict, classification, tmp_path):
    model = shutil.copytree(classification / "models/onnx", tmp_path / "model")
    assert predict("in", "-o", "out/", model=model).exit_code == 0
    (model / "export.json").touch()
    assert "already" not in predict("in", "-o", "out/", model=model).stderr


def test_results_are_made_again_of_what_was_written_before_them_and_came_later(
    given, predict, classification, tmp_path
):
    model = shutil.copytree(classification / "models/onnx", tmp_path / "model")
    shutil.copytree(model, tmp_path / "other")
    (tmp_path / "corrected.csv").write_bytes(Path("in/b.csv").read_bytes())
    (tmp_path / "kept.jsonl").write_bytes(Path("in/c.jsonl").read_bytes())

    def kept():
        done = predict("in", "-o", "out/", model=model)
        assert done.exit_code == 0, done.output
        results = re.search(r"out has (\d) of 3 results", done.stderr)
        return int(results[1]) if results else 0

    assert kept() == 0
    assert kept() == 3
    (tmp_path / "corrected.csv").rename("in/b.csv")
    assert kept() == 2
    shutil.copy2(tmp_path / "kept.jsonl", "in/c.jsonl")
    assert kept() == 2
    Path("in/c.jsonl").unlink()
    Path("in/c.jsonl").symlink_to(tmp_path / "kept.jsonl")
    assert kept() == 2
    assert kept() == 3
    model.rename(tmp_path / "old")
    (tmp_path / "other").rename(model)
    assert kept() == 0


def test_file_with_bad_rows_has_no_result_unless_they_are_skipped(given, predict):
    Path("in/b.csv").write_text("id,subject,body\n1,a,b\n2,,\n")
    stopped = predict("in", "-o", "out/")
    assert stopped.exit_code == 65
    assert "in/b.csv, line 3" in stopped.stderr
    assert list(contents(Path("out"))) == ["a.parquet"]
    skipped = predict("in", "-o", "out/", "--max-bad-share", 1)
    assert skipped.exit_code == 0
    assert "skipped line 3" in skipped.stderr
    assert sorted(contents(Path("out"))) == ["a.parquet", "b.csv.parquet", "c.jsonl.parquet"]


def test_what_cannot_be_predicted_is_refused_before_it_begins(given, predict):
    def refusal(*words):
        done = predict(*words)
        assert done.exit_code in {1, 65}, done.output
        assert "Traceback" not in done.output
        return done.stderr

    Path("empty").mkdir()
    pq.write_table(pa.Table.from_pylist(texts(0, 2)), "in/b.parquet")
    assert "empty has no file that ends in" in refusal("empty")
    assert "would be the result of two files" in refusal("in/b.csv", "in/b.csv", "-o", "out/")
    assert "or replace an input" in refusal("in/b.parquet", "-o", "in/")
    assert "in/b.csv is also the input" in refusal("in", "-o", "in/b.csv")
    assert "Name a folder" in refusal("in", "-o", "out.csv")
    assert "--workers: only the engine ray" in refusal("in", "--workers", 2)
    Path("in/a.parquet").write_bytes(Path("in/a.parquet").read_bytes()[:-40])
    assert "in/a.parquet: not a Parquet file" in refusal("in", "-o", "out/")
    assert not Path("out").exists() or not contents(Path("out"))


def test_killed_command_is_continued(classification, tmp_path, predict):
    (tmp_path / "in").mkdir()
    for number in range(6):
        (tmp_path / f"in/{number}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in texts(0, 1500))
        )
    words = [tmp_path / "in", "-m", classification / "models/onnx", "-o", f"{tmp_path}/out/", "--threads", 1]
    command, options = tuneline("predict", *words)
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, **options) as running:
        while running.poll() is None and not list(tmp_path.glob("out/1*")):
            time.sleep(0.005)
        os.killpg(running.pid, signal.SIGKILL)
        assert b"Traceback" not in running.stderr.read()
    left = [path.name for path in tmp_path.glob("out/[0-9]*.parquet")]
    assert 2 <= len(left) < 6
    done = predict(tmp_path / "in", "-o", f"{tmp_path}/out/", "--threads", 1)
    assert f"{len(left)} of 6 results already" in done.stderr
    assert predict(tmp_path / "in", "-o", f"{tmp_path}/all/", "--threads", 1).exit_code == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "all")


@pytest.mark.slow
def test_ray_writes_the_bytes_of_the_local_engine(given, predict, monkeypatch):
    assert predict("in", "-o", "local/").exit_code == 0
    for workers in (1, 2, 4):
        done = predict("in", "-o", f"ray{workers}/", "--engine", "ray", "--workers", workers)
        assert done.exit_code == 0, done.output
        assert contents(Path(f"ray{workers}")) == contents(Path("local"))
    Path("tests").symlink_to(ROOT / "tests")  # workers import the task from the current folder
    monkeypatch.setattr(batch, "predict_task", killing.kill_first_worker)
    assert predict("in", "-o", "killed-worker/", "--engine", "ray", "--workers", 2).exit_code == 0
    assert Path("killed").exists()
    assert contents(Path("killed-worker")) == contents(Path("local"))
