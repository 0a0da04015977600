import json

import pytest

from tuneline.core.runtime.errors import (
    PERMANENT,
    DataError,
    DiskError,
    GateError,
    ParamsError,
    StageError,
    UnreadableError,
)
from tuneline.core.stage.entry import run_stage


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def exit_status(main) -> int:
    with pytest.raises(SystemExit) as exit_info:
        run_stage("tokenize", main)
    return exit_info.value.code


def test_successful_stage_writes_its_timing(project):
    assert exit_status(lambda: {"rows_per_second": 12.5}) == 0
    timing = json.loads((project / "reports/timing/tokenize.json").read_text())
    assert timing["rows_per_second"] == 12.5
    assert timing["seconds"] >= 0
    assert timing["peak_memory_mb"] > 1


def test_stage_does_not_start_with_another_engine_than_that_of_engine_yaml(project, capsys):
    (project / "engine.yaml").write_text("version: 0.0.7\nstages: {tokenize: 3f}\n")
    (project / "dvc.yaml").write_text("stages: {tokenize: {cmd: python -m stages.tokenize, deps: []}}\n")
    assert exit_status(lambda: pytest.fail("it started")) == PERMANENT
    assert "tokenize: engine.yaml is of tuneline 0.0.7" in capsys.readouterr().err


def test_stage_error_is_printed_without_traceback(project, capsys):
    def main():
        raise StageError("train.csv, row 7: no label.", "Fill it in.")

    assert exit_status(main) == 1
    assert capsys.readouterr().err == "tokenize: train.csv, row 7: no label.\n  Fill it in.\n"
    assert not (project / "reports").exists()


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ParamsError, PERMANENT),
        (DataError, PERMANENT),
        (GateError, PERMANENT),
        (UnreadableError, 1),
        (DiskError, 1),
    ],
)
def test_stage_that_cannot_succeed_in_another_attempt_says_so_by_its_status(error, status):
    def main():
        raise error("It is wrong.")

    assert exit_status(main) == status


def test_interrupted_stage_prints_how_to_resume(capsys):
    def main():
        raise KeyboardInterrupt

    assert exit_status(main) == 130
    assert "dvc repro" in capsys.readouterr().err


def test_unexpected_error_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        run_stage("tokenize", lambda: 1 / 0)
