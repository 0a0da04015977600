import errno
import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tuneline.core.stage import require, run_stage
from tuneline.runtime.errors import (
    PERMANENT,
    DataError,
    DiskError,
    GateError,
    ParamsError,
    StageError,
    UnreadableError,
)


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


STAGE = "from tuneline.core.stage import run_stage; run_stage('tokenize', lambda: {})"
PARENT = (
    "import os, sys; held = b'1' * 400_000_000; child = os.fork(); child or os.execv(sys.executable,"
    " sys.argv[1:]); os.wait()"
)


def test_memory_is_that_of_the_stage_and_not_of_what_started_it(project):
    """After ``fork`` and ``exec``, ``getrusage`` has the memory of the parent."""
    subprocess.run(
        [sys.executable, "-c", PARENT, sys.executable, "-c", STAGE],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    assert json.loads((project / "reports/timing/tokenize.json").read_text())["peak_memory_mb"] < 300


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


def test_full_disk_is_printed_without_traceback(capsys):
    def main():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "data/raw")

    assert exit_status(main) == 1
    assert capsys.readouterr().err.startswith(
        "tokenize: data/raw cannot be written: No space left on device."
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("KeyboardInterrupt", "interrupted; no partial outputs are left.\n"),
        ("MemoryError", "memory ran out: MemoryError. Raise its limit"),
        (
            "ImportError('libtorch_cpu.so: failed to map segment from shared object')",
            "memory ran out: libtorch_cpu.so",
        ),
    ],
)
@pytest.mark.parametrize("package", ["stages", "tuneline.cli"])
def test_limit_of_memory_or_ctrl_c_while_a_process_imports_is_printed_without_traceback(
    package, error, message
):
    """All but the first of its modules: ``tuneline.runtime.terminal``, which prints it."""
    program = (
        f"import sys; sys.modules['typing'] = None\ntry: import {package}\nexcept ImportError: pass\nraise"
        f" {error}"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert done.stderr.startswith(message)
    assert "Traceback" not in done.stderr


LOSES_AN_INTERRUPT = """
import signal, time, stages
class Interrupted:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
Interrupted()
time.sleep(30)
"""


def test_error_of_one_of_several_processes_is_printed_if_its_file_cannot_be_written(
    project, monkeypatch, capsys
):
    """torchrun's folder may be on the disk that is full."""
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(project / "gone/error.json"))

    def main():
        raise StageError("The disk is full.")

    assert exit_status(main) == 1
    assert capsys.readouterr().err == "tokenize: The disk is full.\n"


def test_unexpected_error_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        run_stage("tokenize", lambda: 1 / 0)


def test_missing_input_is_an_error_that_names_the_stage(project):
    with pytest.raises(StageError, match=r"dvc repro download"):
        require(project / "data/raw", "download")
