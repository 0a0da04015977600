"""``tuneline predict`` as a process: streams, pipes, signals and memory."""

import gzip
import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.tuneline.cli.predict.conftest import PAIR


def tuneline(*words, **options):
    return [sys.executable, "-c", f"from tuneline.cli import app; app({[*map(str, words)]})"], {
        "cwd": ROOT,
        **options,
    }


def test_predictions_are_written_while_rows_still_arrive(classification):
    """A full window is predicted before the next row is read."""
    command, options = tuneline("predict", "--model", classification / "models/onnx", "--batch-size", 2)
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        **options,
    ) as running:
        running.stdin.write(PAIR * 2)
        running.stdin.flush()
        assert json.loads(running.stdout.readline())["row"] == 1
        running.stdin.write(PAIR)
        running.stdin.close()
        assert [json.loads(line)["row"] for line in running.stdout] == [2, 3]


def send_until_ended(running, number):
    """Send a signal, and again after ten seconds: Python answers none that arrives between its last look and
    the start of a read (measured
    on a busy machine: 3 of 450), and a person repeats it then."""
    while running.poll() is None:
        running.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            running.wait(10)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
    ],
)
@pytest.mark.promise("interrupted-predict")
def test_interrupted_run_leaves_no_file(classification, tmp_path, number):
    words = (
        "predict",
        "--model",
        classification / "models/onnx",
        "--batch-size",
        1,
        "-o",
        tmp_path / "out.csv",
    )
    command, options = tuneline(*words)
    options |= {"text": True}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, **options) as running:
        running.stdin.write(PAIR * 3)
        running.stdin.flush()
        until = time.monotonic() + 60
        while not list(tmp_path.iterdir()) and time.monotonic() < until:
            time.sleep(0.05)
        send_until_ended(running, number)
        assert running.stderr.read() == "tuneline predict: interrupted; incomplete files were discarded.\n"
        assert running.wait() == 128 + number
    assert not list(tmp_path.iterdir())


def peak_memory(rows, classification, tmp_path):
    """Return the peak memory in MB of a process that predicts this many rows."""
    path = Path(tmp_path, f"{rows}.jsonl.gz")
    with gzip.open(path, "wt", compresslevel=1) as file:
        for row in range(rows):
            file.write(json.dumps({"subject": f"parcel {row}", "body": "is missing"}) + "\n")
    words = [
        "predict",
        str(path),
        "--model",
        str(classification / "models/onnx"),
        "-o",
        str(tmp_path / "out.parquet"),
    ]
    code = (
        f"from tuneline.cli import app; app({words}, standalone_mode=False);"
        # getrusage may have the peak of these tests
        "print(int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) / 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    return float(done.stdout)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(classification, tmp_path):
    few, many = peak_memory(20_000, classification, tmp_path), peak_memory(60_000, classification, tmp_path)
    assert many < few + 10
