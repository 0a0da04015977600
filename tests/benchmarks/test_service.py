"""The service that ``benchmarks.service`` measures: started, loaded and ended."""

import json
import shutil
import subprocess
import sys

import psutil
import pytest

from benchmarks.service import read_rows, send_load, started, write_bodies
from tests.conftest import ROOT
from tests.exported_pipeline import published_pipeline

needs_wrk = pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder of a tiny model, with a file of rows in it."""
    folder = tmp_path_factory.mktemp("exported") / "onnx"
    shutil.copytree(published_pipeline(tmp_path_factory, "classification") / "models/onnx", folder)
    rows = [{"subject": f"parcel {number}", "body": "it never came"} for number in range(40)]
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def test_service_that_does_not_start_shows_its_log(exported, tmp_path):
    with (
        pytest.raises(RuntimeError, match="nowhere"),
        started(ROOT, exported / "nowhere", "fp32", tmp_path / "log"),
    ):
        pass


@needs_wrk
def test_load_counts_refusals_and_the_service_ends(exported, tmp_path):
    rows = read_rows(exported, exported / "rows.jsonl")
    write_bodies(rows, tmp_path / "good.txt")
    write_bodies([*rows, ("a single text",)], tmp_path / "bad.txt")
    with started(ROOT, exported, "fp32", tmp_path / "log") as (port, process):
        good = send_load(port, tmp_path / "good.txt", 2, 1)
        bad = send_load(port, tmp_path / "bad.txt", 2, 1)
    assert not psutil.pid_exists(process.pid)
    assert good.refused == good.lost == 0
    assert good.requests > len(rows)
    assert 0 < good.p50 <= good.p95 <= good.p99
    assert bad.requests / 60 < bad.refused < bad.requests / 20, "one of 41 requests"


@needs_wrk
@pytest.mark.slow
def test_service_benchmark_runs(exported):
    command = [sys.executable, "-m", "benchmarks.service", "--model", str(exported), "--rounds", "1"]
    command += ["--rows", str(exported / "rows.jsonl"), "--seconds", "1", "--connections", "2"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "fp32" in done.stdout
    assert "int8" in done.stdout
