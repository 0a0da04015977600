"""The servers that ``benchmarks.service`` measures: started, asked, loaded and ended."""

import shutil
import subprocess
import sys

import httpx
import psutil
import pytest

from benchmarks.predict import write_model, write_rows
from benchmarks.service.load import send_load
from benchmarks.service.peers import Peer, family_of, of_module, started
from benchmarks.service.rows import body, read_rows, write_bodies
from tests.conftest import ROOT
from tuneline.serve.text_classifier import TextClassifier

PLAIN = Peer("FastAPI", of_module("plain"))
needs_wrk = pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder of a tiny model, with a file of rows in it."""
    folder = tmp_path_factory.mktemp("exported")
    write_model(folder, 1, 64)
    write_rows(folder / "rows.jsonl", 40)
    return folder


def test_plain_server_answers_with_all_classes_and_ends(exported, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    row = read_rows(exported, exported / "rows.jsonl")[0]
    expected = TextClassifier.load(exported, "int8").predict_one(row).scores
    with started(PLAIN, exported, "int8", tmp_path / "log") as port:
        family = family_of(port)
        classes = httpx.post(f"http://127.0.0.1:{port}/predict", json=body(row), trust_env=False).json()
    scores = {each["label"]: each["score"] for each in classes}
    assert scores == pytest.approx(expected, abs=1e-6)
    assert classes[0]["score"] >= classes[1]["score"]
    assert family
    assert not any(psutil.pid_exists(process.pid) for process in family)


def test_server_that_does_not_start_shows_its_log(exported, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    with (
        pytest.raises(RuntimeError, match="StageError"),
        started(PLAIN, exported / "nowhere", "fp32", tmp_path / "log"),
    ):
        pass


@needs_wrk
def test_load_counts_refusals(exported, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    rows = read_rows(exported, exported / "rows.jsonl")
    write_bodies(rows, tmp_path / "good.txt")
    write_bodies([*rows, ("a single text",)], tmp_path / "bad.txt")
    with started(PLAIN, exported, "fp32", tmp_path / "log") as port:
        good = send_load(port, tmp_path / "good.txt", 2, 1)
        bad = send_load(port, tmp_path / "bad.txt", 2, 1)
    assert good.refused == good.lost == 0
    assert good.requests > len(rows)
    assert 0 < good.p50 <= good.p95 <= good.p99
    assert bad.requests / 60 < bad.refused < bad.requests / 20, "one of 41 requests"


@needs_wrk
@pytest.mark.slow
@pytest.mark.parametrize("options", [("--only", "FastAPI", "--connections", "2"), ("--layout",)])
def test_service_benchmark_runs(exported, options):
    command = [sys.executable, "-m", "benchmarks.service", "--model", str(exported), "--rounds", "1"]
    command += ["--rows", str(exported / "rows.jsonl"), "--seconds", "1", *options]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "fp32" in done.stdout
    assert "int8" in done.stdout
