"""``tuneline predict`` as a process: streams, pipes, signals and memory."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.tuneline.cli.predict.conftest import PAIR, lines_of


def tuneline(*words, **options):
    return [sys.executable, "-c", f"from tuneline.cli import app; app({[*map(str, words)]})"], {
        "cwd": ROOT,
        **options,
    }


def test_output_to_a_pipe_and_to_dev_stdout_comes_as_a_stream(classification, tmp_path):
    (tmp_path / "in.jsonl").write_text(PAIR * 3)
    pipe = tmp_path / "out.csv.gz"
    os.mkfifo(pipe)
    model = classification / "models/onnx"
    command, options = tuneline("predict", tmp_path / "in.jsonl", "--model", model, "-o", pipe)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options) as running:
        assert len(gzip.decompress(pipe.read_bytes()).splitlines()) == 4
        assert running.wait() == 0, running.stderr.read()
    assert pipe.is_fifo()
    command, options = tuneline("predict", tmp_path / "in.jsonl", "--model", model, "-o", "/dev/stdout")
    done = subprocess.run(command, capture_output=True, text=True, check=True, **options)
    assert [line["row"] for line in lines_of(done.stdout)] == [1, 2, 3]


def test_predict_imports_neither_torch_nor_transformers(classification, tmp_path):
    """They take seconds and hundreds of megabytes, and a server does not have them."""
    (tmp_path / "in.jsonl").write_text(PAIR)
    words = [
        "predict",
        str(tmp_path / "in.jsonl"),
        "--model",
        str(classification / "models/onnx"),
        "-o",
        str(tmp_path / "out.csv"),
    ]
    heavy = {"torch", "transformers", "datasets", "onnx", "pandas", "sklearn", "scipy", "dvc"}
    code = (
        f"import sys; from tuneline.cli import app; app({words}, standalone_mode=False);"
        f"loaded = {heavy} & set(sys.modules); sys.exit(str(loaded) if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.csv").exists()


def test_predictions_are_written_while_rows_still_arrive(classification):
    """A full window is predicted before the next row is read."""
    command, options = tuneline("predict", "--model", classification / "models/onnx", "--window", 2)
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


def test_closed_output_pipe_ends_without_a_traceback(classification):
    command, options = tuneline("predict", "--model", classification / "models/onnx", "--window", 1)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    ) as running:
        running.stdin.write(PAIR.encode() * 3)
        running.stdin.flush()
        running.stdout.readline()
        running.stdout.close()
        running.stdin.write(PAIR.encode() * 200)
        running.stdin.close()
        assert b"Traceback" not in running.stderr.read()


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
        *(pytest.param(other, marks=pytest.mark.slow) for other in (signal.SIGTERM, signal.SIGHUP)),
    ],
)
@pytest.mark.promise("interrupted-predict")
def test_interrupted_run_leaves_no_file(classification, tmp_path, number):
    words = ("predict", "--model", classification / "models/onnx", "--window", 1, "-o", tmp_path / "out.csv")
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
        "--window",
        "512",
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
    few, many = peak_memory(6_000, classification, tmp_path), peak_memory(60_000, classification, tmp_path)
    assert many < few + 10
