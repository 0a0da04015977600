import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages import tokenize
from tests.conftest import ROOT
from tests.params import change_params, write_params
from tests.stages.tokenize.raw_splits import sentences, write_raw
from tuneline.core.paths import SPLITS
from tuneline.core.stage.provenance import BaseSource
from tuneline.core.stage.records import write_record
from tuneline.core.stage.tables import SplitReader, shard_file

PARAMS = {
    "tokenize": {"vocab_size": 300, "max_length": 24},
    "model": {"config": {"model_type": "bert", "max_position_embeddings": 32}},
}
ROWS = {"train": (40, 40, 13), "validation": (20,), "test": (11, 4)}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project whose raw splits have several files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    write_params(tmp_path, **PARAMS)
    write_shards(tmp_path / "data/raw", ROWS)
    write_record(tmp_path / "models/base/source.json", BaseSource(checkpoint=None, tokenizer=None))
    return tmp_path


def write_shards(folder, rows):
    for seed, split in enumerate(SPLITS):
        for number, count in enumerate(rows[split]):
            texts = [sentences(count, seed=100 * seed + 10 * number + column) for column in range(2)]
            write_raw(shard_file(folder, split, number, len(rows[split])), texts)


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def outs(project):
    return {
        **contents(project / "data/tokenized"),
        "metrics": (project / "metrics/tokenize.json").read_bytes(),
    }


def test_each_raw_file_has_a_tokenized_one_with_the_rows_of_the_whole_split(project):
    tokenize.main()
    sharded = {split: SplitReader.open(Path("data/tokenized"), split, "tokenize") for split in SPLITS}
    assert {
        split: tuple(pq.read_metadata(path).num_rows for path in reader.paths)
        for split, reader in sharded.items()
    } == ROWS
    assert json.loads(Path("metrics/tokenize.json").read_text())["rows"] == sum(map(sum, ROWS.values()))
    tokens, tokenizer = (
        {split: reader.read() for split, reader in sharded.items()},
        contents(project / "data/tokenized/tokenizer"),
    )
    for split in SPLITS:
        reader = SplitReader.open(Path("data/raw"), split, "download")
        table = reader.read()
        for path in reader.paths:
            path.unlink()
        pq.write_table(table, f"data/raw/{split}.parquet")
    tokenize.main()
    assert contents(project / "data/tokenized/tokenizer") == tokenizer
    assert all(
        pa.Table.equals(pq.read_table(f"data/tokenized/{split}.parquet"), tokens[split]) for split in SPLITS
    )
    assert sorted(path.name for path in (project / "data").iterdir()) == ["raw", "tokenized"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [None, 1, 2, 4], ids=["local", "1 worker", "2 workers", "4 workers"])
def test_outs_are_the_same_on_each_engine_after_a_kill(project, workers):
    """Kill a worker of Ray, or the process of the local engine between two files, in the middle of 12
    files."""
    write_shards(project / "data/raw", {"train": (1500,) * 12, "validation": (20,), "test": (11, 4)})
    for path in (project / "data/raw").glob("train-*-of-00003.parquet"):
        path.unlink()
    tokenize.main()
    expected = outs(project)
    if workers:
        change_params(project, {"run.engine": "ray", "run.workers": workers})
    process = start_stage(project)
    wait_for_state(project)
    if workers:
        killed = kill_workers(project, process)
        errors = process.communicate(timeout=200)[1]
        assert (process.returncode, killed > 0) == (0, True), errors
    else:
        process.kill()
        process.wait()
        tokenize.main()
    assert outs(project) == expected


def start_stage(project):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "stages.tokenize"]
    return subprocess.Popen(
        command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for_state(project):
    """Return when the first file of a run is finished."""
    deadline = time.monotonic() + 120
    while not list(project.glob("data/.tokenized.*.partial/train-*.parquet")):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def kill_workers(project, stage):
    """Kill the workers of Ray in the folder of the project while they write a file; return their number."""
    while stage.poll() is None:
        if list(project.glob("data/.tokenized.*.partial/.train-*.partial")) and (
            workers := workers_in(project)
        ):
            for process in workers:
                os.kill(process, signal.SIGKILL)
            return len(workers)
        time.sleep(0.002)
    return 0


def workers_in(folder):
    """Return the workers, but not the agents of Ray (``ray::DashboardAgent``), with which the whole cluster
    ends."""
    workers = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            title = (process / "cmdline").read_bytes().partition(b"\0")[0].strip()
            if (
                (process / "cwd").readlink() == folder
                and title.startswith(b"ray::")
                and not title.endswith(b"Agent")
            ):
                workers.append(int(process.name))
    return workers
