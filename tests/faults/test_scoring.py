"""Scoring: a fault of the machine or the model refuses no file, a fault of one file stops no other, each row
is scored once.

The flow as a whole is in tests/flows/test_score.py.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT
from tests.faults.disks import on_small_disk
from tests.faults.kills import changes, kills, some_of
from tests.faults.truncation import damages
from tests.flows.conftest import TOY, tickets
from tuneline.checks.results import Profile
from tuneline.core.repository.programs import Programs
from tuneline.core.repository.registry import Version
from tuneline.core.runtime.files import locked
from tuneline.core.settings import Scoring
from tuneline.operations.inbox import Incoming, Outbox, scored_record
from tuneline.operations.scoring import Scorer


@pytest.fixture(scope="session")
def toy_model(tmp_path_factory) -> Path:
    """A folder in which the small pipeline ran as far as a model needs."""
    root = tmp_path_factory.mktemp("toy-model")
    shutil.copytree(TOY, root, dirs_exist_ok=True)
    for stage in ("data", "train"):
        command = [sys.executable, "toy.py", stage]
        subprocess.run(
            command, cwd=root, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True
        )
    return root


@pytest.fixture
def outbox(tmp_path) -> Outbox:
    return Outbox(tmp_path / "scored", tmp_path / "archive", tmp_path / "scratch")


@pytest.fixture
def put(tmp_path):
    def put(name: str, texts: list[str], column: str = "text") -> Incoming:
        path = tmp_path / "inbox" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([column, *texts]) + "\n")
        return Incoming.find(path)

    return put


def score(outbox: Outbox, root: Path, *waiting: Incoming, **settings: Any) -> Scorer:
    """Score files as the flow does, without Prefect; ``settings`` are those of section ``scoring``."""
    profile = Profile.read(root / "reports/checks/profile.json")
    lock = outbox.folder.with_name("scoring.lock")
    with locked(lock, wait=60) as held:
        outbox.prepare()
        programs = Programs(ROOT, "test-scoring", locks=[held])
        version = Version("v0.1.0", "0" * 40)
        scorer = Scorer(root / "models/onnx", version, profile, outbox, Scoring(**settings), programs, print)
        for incoming in waiting:
            scorer.score(incoming)
    return scorer


def files(outbox: Outbox) -> list[str]:
    return sorted(path.name for path in outbox.folder.glob("[!.]*"))


def kill_prediction(when: Callable[[], bool]) -> None:
    """SIGKILL the prediction, as the kernel does that is out of memory."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for process in psutil.Process().children(recursive=True) if when() else ():
            with contextlib.suppress(psutil.Error):
                if "tuneline.serve.batch" in process.cmdline():
                    process.kill()
                    return
        time.sleep(0.001)


@pytest.mark.promise("killed-scoring")
def test_killed_prediction_is_no_fault_of_the_file_and_stops_no_other(toy_model, outbox, put):
    waiting = [put("large.csv", tickets(50_000)), put("last.csv", tickets(5))]
    killer = threading.Thread(
        target=kill_prediction, args=[lambda: list(outbox.scratch.glob(".predictions.parquet*"))]
    )
    killer.start()
    results = score(outbox, toy_model, *waiting)
    killer.join()
    assert results.problems == [
        "not scored large.csv, the next run tries again: Scoring large.csv was ended by SIGKILL."
    ]
    assert files(outbox) == ["last.csv.parquet"], "the last one was predicted by another process"
    assert (results.files, waiting[0].path.exists()) == (1, True)


@pytest.mark.promise("damaged-model")
def test_damaged_model_is_no_fault_of_the_files(toy_model, outbox, put):
    waiting = [put("a.csv", tickets(5)), put("b.csv", tickets(5))]
    for damage in damages(toy_model / "models/onnx/model.onnx"):
        problems = score(outbox, toy_model, *waiting).problems
        assert problems[0].startswith("not scored a.csv, the next run tries again: tuneline "), damage
        assert problems[1].startswith("not scored b.csv"), damage
        assert "model.onnx is damaged" in problems[0]
        assert files(outbox) == [], damage


@pytest.mark.promise("bad-file")
def test_bad_file_is_refused_and_its_correction_leaves_one_result(toy_model, outbox, put):
    incoming = put("a.csv", tickets(5), column="body")
    (problem,) = score(outbox, toy_model, incoming).problems
    assert problem.startswith("refused a.csv: tuneline predict: ")
    assert "no column 'text'" in problem
    assert (files(outbox), outbox.refused(incoming)) == (["a.csv.error.json"], True)
    assert score(outbox, toy_model, put("a.csv", tickets(5))).rows == 5
    assert files(outbox) == ["a.csv.parquet"]


def test_reason_of_a_refusal_quotes_nothing_of_the_file(toy_model, outbox, tmp_path):
    """Who may read the outbox, or Prefect, may not read all that people send."""
    contents = {
        "header.csv": b"secret,textsecret\n1,2\n",
        "twice.csv": b"text,secret,secret\na,b,c\n",
        "separated.csv": b"text:secret\na:b\n",
        "encoding.csv": b"text\nsecret \x81\n",
        "fields.csv": b"text\na,secret\n",
        "list.jsonl": b'{"text": ["secret"]}\n',
        "key.jsonl": b'{"textsecret": "a"}\n',
        "broken.jsonl": b'{"text": secret}\n',
    }
    (tmp_path / "inbox").mkdir()
    for name, content in contents.items():
        (tmp_path / "inbox" / name).write_bytes(content)
    problems = score(
        outbox, toy_model, *(Incoming.find(tmp_path / "inbox" / name) for name in contents)
    ).problems
    reasons = [path.read_text() for path in outbox.folder.glob("*.error.json")]
    assert len(problems) == len(reasons) == len(contents)
    assert not [reason for reason in (*problems, *reasons) if "secret" in reason]
    assert "header.csv: no column 'text'." in problems[0]


SCORES_ON_A_DISK = """
import sys
from pathlib import Path
from typing import Any
from tests.faults.test_scoring import *
folder = Path(sys.argv[1])
outbox = Outbox(folder / "scored", folder / "archive", Path(sys.argv[2]))
root, keep, *paths = Path(sys.argv[3]), *sys.argv[4:]
results = score(outbox, root, *map(Incoming.find, map(Path, paths)), keep=[keep])
print("RESULT", results.rows, files(outbox), " ".join("; ".join(results.problems).split()))
"""


@pytest.mark.parametrize("scratch", ["disk/scratch"])
@pytest.mark.promise("killed-scoring")
def test_full_disk_is_no_fault_of_the_file_and_stops_no_other(toy_model, put, tmp_path, scratch):
    draw, disk = random.Random(1), tmp_path / "disk"
    disk.mkdir()
    paths = [
        put("large.csv", [draw.randbytes(50).hex() for _ in range(4000)]).path,
        put("small.csv", tickets(3)).path,
    ]
    arguments = [disk, tmp_path / scratch, toy_model, "text", *paths]
    command = on_small_disk(disk, "128k", sys.executable, "-c", SCORES_ON_A_DISK, *map(str, arguments))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    (result,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert result.startswith(
        "RESULT 3 ['small.csv.parquet'] not scored large.csv, the next run tries again:"
    ), done.stderr
    assert os.strerror(errno.ENOSPC) in result


@pytest.mark.promise("changing-file")
def test_file_that_changes_while_it_is_scored_is_scored_as_a_whole_later(toy_model, outbox, put):
    found = put("a.csv", tickets(5))
    changed = put("a.csv", tickets(7))
    (problem,) = score(outbox, toy_model, found).problems
    assert problem.startswith("not scored a.csv, the next run tries again: ChangedError: It changed")
    assert files(outbox) == []
    assert score(outbox, toy_model, changed).rows == 7
    assert files(outbox) == ["a.csv.parquet"]
    assert score(outbox, toy_model, changed).problems, "it is gone"


@pytest.mark.promise("changing-file")
def test_file_that_replaces_another_while_its_result_is_published_is_scored_later(toy_model, outbox, put):
    found = put("a.csv", tickets(5))
    newer = put(".a.csv", tickets(7))

    def replace(event, arguments):
        """Replace the file as its result gets its name: the last event before the file is moved."""
        if event == "os.rename" and str(arguments[1]).endswith("/a.csv.parquet") and newer.path.exists():
            newer.path.rename(found.path)

    sys.addaudithook(replace)
    assert not score(outbox, toy_model, found).problems
    assert pq.read_metadata(outbox.folder / "a.csv.parquet").num_rows == 5
    assert not list(outbox.archive.iterdir()), "the file with this name was not read"
    waiting = Incoming.find(found.path)
    assert not outbox.complete(waiting, "0" * 40)
    assert score(outbox, toy_model, waiting).rows == 7
    assert files(outbox) == ["a.csv.2.parquet", "a.csv.parquet"]


def test_name_that_is_used_again_is_a_new_version(toy_model, outbox, put):
    """The numbers agree, also where the user has a file of such a name."""
    score(outbox, toy_model, put("a.csv", tickets(3)))
    place = outbox.archive / "2-a.csv"
    place.write_text("of the user")
    for rows, number in ((4, 3), (5, 4)):
        incoming = put("a.csv", tickets(rows))
        assert score(outbox, toy_model, incoming, keep=["text"]).rows == rows
        result = outbox.folder / f"a.csv.{number}.parquet"
        table = pq.read_table(result)
        assert table["text"].to_pylist() == tickets(rows)
        assert set(table["model_version"].to_pylist()) == {"v0.1.0"}
        record = scored_record(result)
        assert record.path == "a.csv"
        assert (outbox.archive / f"{number}-a.csv").read_text().split("\n")[1:-1] == tickets(rows)
        assert not incoming.path.exists()
    assert files(outbox) == ["a.csv.3.parquet", "a.csv.4.parquet", "a.csv.parquet"]
    assert place.read_text() == "of the user"


@some_of(12)
@pytest.mark.promise("killed-scoring")
def test_kill_at_any_instant_leaves_a_refusal_or_nothing_or_the_whole_result(toy_model, outbox, put, every):
    """And the input is in the inbox, or in the archive after the next run if its result is complete."""
    refused = put("a.csv", tickets(5), column="body")
    incoming = put("a.csv", tickets(5))
    content = incoming.path.read_bytes()
    result = outbox.folder / "a.csv.parquet"

    started: list[bool] = []

    def is_step(event, arguments):
        """From the start of the prediction on: before it, what the killed run has left is removed, which are
        more or fewer steps."""
        if event == "subprocess.Popen":
            started.append(True)
            return True
        return bool(started) and changes(event, arguments) and str(outbox.folder.parent) in str(arguments[0])

    outbox.prepare()
    outbox.refuse(refused, "no column 'text'")
    seen = set()
    for step in kills(
        lambda: score(outbox, toy_model, Incoming.find(incoming.path)),
        is_step,
        every=every,
    ):
        seen.add((*files(outbox), incoming.path.exists()))
        whole = result.exists()
        assert pq.read_table(result).num_rows == 5 if whole else True
        left = Incoming.find(incoming.path)
        if left:
            assert outbox.complete(left, "0" * 40) == whole, step
        assert incoming.path.exists() != whole
        kept = outbox.archive / "a.csv" if whole else incoming.path
        assert kept.read_bytes() == content
        kept.rename(incoming.path)
        result.unlink(missing_ok=True)
        outbox.refuse(refused, "no column 'text'")
    states = {("a.csv.error.json", True), (True,), ("a.csv.parquet", True), ("a.csv.parquet", False)}
    assert seen == states if every == 1 else seen < states
    assert (files(outbox), incoming.path.exists()) == (["a.csv.parquet"], False)
    assert not list(outbox.scratch.iterdir())


def test_damaged_record_is_the_problem_of_its_file_only(toy_model, outbox, put):
    scored, refused = put("scored.csv", tickets(2)), put("refused.csv", tickets(2), column="body")
    score(outbox, toy_model, scored, put("other.csv", tickets(2)))
    outbox.refuse(refused, "no column 'text'")
    assert outbox.refused(refused)
    again = put("scored.csv", tickets(2))
    for damage in damages(outbox.folder / "scored.csv.parquet"):
        assert [record.path for record in outbox.latest()] == ["other.csv"], damage
        assert not outbox.complete(again, "0" * 40), damage
