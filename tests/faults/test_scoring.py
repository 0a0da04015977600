"""Scoring: a fault of the machine or the model refuses no file, a fault of one file stops no other, each row is scored once.

The flow as a whole is in tests/flows/test_score.py, the fetched model in tests/flows/scoring/test_deployed.py.
"""

import contextlib
import errno
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.promotion.registry import Version
from flows.runs.pipeline import Pipeline
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import locked
from flows.scoring.deployed import DeployedModel
from flows.scoring.inbox import METADATA, Incoming, Outbox, new_files, record_of
from flows.scoring.score_files import ChangedError, RefusedError, score_file
from flows.settings.scoring import Scoring
from tests.conftest import ROOT
from tests.faults.disks import on_small_disk
from tests.faults.kills import changes, kills
from tests.faults.truncation import damages
from tests.flows.conftest import TOY, tickets
from tuneline.records.profile import Profile


@pytest.fixture(scope="session")
def toy_model(tmp_path_factory) -> Path:
    """A folder in which the small pipeline ran as far as a model needs."""
    root = tmp_path_factory.mktemp("toy-model")
    shutil.copytree(TOY, root, dirs_exist_ok=True)
    for stage in ("download", "tokenize", "validate", "train", "export"):
        command = [sys.executable, "toy.py", stage]
        subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True)
    return root


def deployed(root: Path) -> DeployedModel:
    return DeployedModel(Version("v0.1.0", "0" * 40), root / "models/onnx", Profile.read(root / "reports/checks/profile.json"))


@pytest.fixture
def outbox(tmp_path) -> Outbox:
    return Outbox(tmp_path / "scored", tmp_path / "scratch")


@pytest.fixture
def put(tmp_path):
    def put(name: str, texts: list[str], column: str = "text") -> Incoming:
        path = tmp_path / "inbox" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([column, *texts]) + "\n")
        return Incoming.find(path)

    return put


def score(outbox: Outbox, root: Path, incoming: Incoming, **settings: Any) -> int:
    """Score one file as the flow does, without Prefect; ``settings`` are those of section ``scoring``."""
    lock = outbox.folder.with_name("scoring.lock")
    with locked(lock, wait=60) as held, Programs(ROOT, "test-scoring", lock=held, preload=False) as programs:
        outbox.prepare()
        return score_file.fn(Pipeline(programs, print), deployed(root), incoming, outbox, Scoring(**settings))


def files(outbox: Outbox) -> list[str]:
    return sorted(path.name for path in outbox.folder.glob("[!.]*"))


def kill_prediction() -> None:
    """SIGKILL ``tuneline predict`` when it runs, as the kernel does that is out of memory."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if "predict" in process.cmdline():
                    process.kill()
                    return
        time.sleep(0.01)


def test_killed_prediction_is_no_fault_of_the_file(toy_model, outbox, put):
    incoming = put("a.csv", tickets(5))
    killer = threading.Thread(target=kill_prediction)
    killer.start()
    with pytest.raises(ProgramError, match="SIGKILL") as error:
        score(outbox, toy_model, incoming)
    killer.join()
    assert error.value.reason == "Scoring a.csv was ended by SIGKILL."
    assert (files(outbox), outbox.has(incoming)) == ([], False)
    assert score(outbox, toy_model, incoming) == 5
    assert outbox.has(incoming)


def test_damaged_model_is_no_fault_of_the_file(toy_model, outbox, put):
    incoming = put("a.csv", tickets(5))
    for damage in damages(toy_model / "models/onnx/model.onnx"):
        with pytest.raises(ProgramError, match="cannot be loaded") as error:
            score(outbox, toy_model, incoming)
        assert (error.value.code, files(outbox)) == (1, []), damage


def test_bad_file_is_refused_and_its_correction_leaves_one_result(toy_model, outbox, put):
    incoming = put("a.csv", tickets(5), column="body")
    with pytest.raises(RefusedError, match="no column 'text'"):
        score(outbox, toy_model, incoming)
    assert (files(outbox), outbox.has(incoming)) == (["a.csv.error.json"], True)
    assert score(outbox, toy_model, put("a.csv", tickets(5))) == 5
    assert files(outbox) == ["a.csv.parquet"]


def test_file_beyond_a_limit_of_size_is_refused_until_the_limit_is_raised(toy_model, outbox, put):
    incoming = put("a.csv", [*tickets(5), "word " * 1000])
    with pytest.raises(RefusedError, match=r"row 6 .* more than 4,000 characters \(--max-cell-characters\)"):
        score(outbox, toy_model, incoming, limits={"max_cell_characters": 4000})
    outbox.refused(incoming).unlink()
    assert score(outbox, toy_model, incoming) == 6


SCORES_ON_A_DISK = """
import sys
from pathlib import Path
from typing import Any
from tests.faults.test_scoring import *
outbox, root, keep, *paths = Outbox(Path(sys.argv[1]), Path(sys.argv[2])), Path(sys.argv[3]), *sys.argv[4:]
for path in map(Path, paths):
    incoming = Incoming.find(path)
    try:
        print("RESULT", path.name, score(outbox, root, incoming, keep=[keep]), "rows")
    except Exception as error:
        print("RESULT", path.name, "refused" if outbox.has(incoming) else "not scored:", " ".join(str(error).split()))
"""


@pytest.mark.parametrize("scratch", ["disk/scratch", "scratch"])  # tuneline predict fails, or what copies its rows
def test_full_disk_is_no_fault_of_the_file_and_stops_no_other(toy_model, put, tmp_path, scratch):
    draw, disk = random.Random(1), tmp_path / "disk"
    disk.mkdir()
    paths = [put("large.csv", [draw.randbytes(50).hex() for _ in range(4000)]).path, put("small.csv", tickets(3)).path]
    arguments = [disk / "scored", tmp_path / scratch, toy_model, "text", *paths]
    command = on_small_disk(disk, "128k", sys.executable, "-c", SCORES_ON_A_DISK, *map(str, arguments))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    large, small = (line for line in done.stdout.splitlines() if line.startswith("RESULT"))
    assert large.startswith("RESULT large.csv not scored:"), done.stderr
    assert os.strerror(errno.ENOSPC) in large
    assert small == "RESULT small.csv 3 rows"


def test_file_that_changes_while_it_is_scored_is_scored_as_a_whole_later(toy_model, outbox, put):
    found = put("a.csv", tickets(5))
    changed = put("a.csv", tickets(7))
    with pytest.raises(ChangedError):
        score(outbox, toy_model, found)
    assert files(outbox) == []
    assert score(outbox, toy_model, changed) == 7
    changed.path.unlink()
    with pytest.raises(ChangedError):
        score(outbox, toy_model, changed)
    assert files(outbox) == ["a.csv.parquet"], "of a file that is gone, the result stays"


def test_kill_at_any_instant_leaves_a_refusal_or_nothing_or_the_whole_result(toy_model, outbox, put):
    refused = put("a.csv", tickets(5), column="body")
    incoming = put("a.csv", tickets(5))

    def is_step(event, arguments):
        return changes(event, arguments) and (event == "subprocess.Popen" or str(outbox.folder.parent) in str(arguments[0]))

    outbox.prepare()
    outbox.refuse(refused, "no column 'text'")
    seen = set()
    for step in kills(lambda: score(outbox, toy_model, incoming), is_step):
        seen.add(tuple(files(outbox)))
        assert outbox.has(incoming) == (outbox.scored(incoming).exists()), step
        assert pq.read_table(outbox.scored(incoming)).num_rows == 5 if outbox.has(incoming) else True
        outbox.scored(incoming).unlink(missing_ok=True)
        outbox.refuse(refused, "no column 'text'")
    assert seen == {("a.csv.error.json",), (), ("a.csv.parquet",)}
    assert files(outbox) == ["a.csv.parquet"]
    assert not list(outbox.scratch.iterdir())


def test_damaged_record_is_the_problem_of_its_file_only(toy_model, outbox, put, tmp_path):
    scored, refused, other = put("scored.csv", tickets(2)), put("refused.csv", tickets(2), column="body"), put("other.csv", tickets(2))
    score(outbox, toy_model, scored)
    score(outbox, toy_model, other)
    outbox.refuse(refused, "no column 'text'")
    assert new_files(tmp_path / "inbox", outbox, 0) == []
    for file in (scored, refused):
        path = outbox.scored(file) if file is scored else outbox.refused(file)
        for damage in damages(path):
            assert new_files(tmp_path / "inbox", outbox, 0) == [file], damage
            assert other.name in {record.path for record in outbox.latest()}


@pytest.mark.parametrize("metadata", [None, b"", b"{", b"[]", b"\xff", b'{"version": "v0.1.0"}'])
def test_damaged_metadata_are_no_record(tmp_path, metadata):
    schema = pa.schema([("row", pa.int64())], metadata=None if metadata is None else {METADATA: metadata})
    pq.write_table(pa.table({"row": [1]}).cast(schema), tmp_path / "a.csv.parquet")
    assert record_of(tmp_path / "a.csv.parquet") is None
