"""Flow ``ingest`` against a real Prefect server, in a repository whose only stage checks the data.

Minutes: each run starts DVC often.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.ingest import ingest
from tests.conftest import ROOT
from tests.dvc_files import add_remote, init_dvc
from tests.flows.conftest import sh
from tests.flows.prefect_server import events, until
from tests.params import write_params
from tuneline.core.runtime.files import locked
from tuneline.operations.runs.repository import Repository

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

CHECK = """
import json, pathlib, subprocess, sys
files = [path for path in pathlib.Path("data/source").rglob("*") if path.is_file()]
rows = [path for path in files if path.suffix in (".csv", ".parquet")]
bad = any(b"poison" in path.read_bytes() for path in rows)
entry = {
    "check": "label_set", "split": "train", "table": "raw", "severity": "error", "status": "failed",
    "title": "", "rows": 1, "found": "1 row with poison", "allowed": "0", "failing": 1, "observed": None,
    "expectation": {}, "examples": [], "hint": None,
}
pathlib.Path("reports/checks").mkdir(parents=True)
checks = {"passed": not bad, "errors": int(bad), "warnings": 0, "not_run": [], "checks": []}
if bad:
    checks["checks"].append(entry)
pathlib.Path("reports/checks/checks.json").write_text(json.dumps(checks))
move = pathlib.Path("../../../../move-main")
if move.exists():
    move.unlink()
    git = ["git", "-C", str(move.parent)]
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message=Meanwhile"], check=True)
sys.exit(bad)
"""
STAGE = "stages: {validate: {cmd: python check.py, deps: [check.py, data/source], outs: [reports/checks]}}\n"
SETTINGS = "ingest: {folder: data/labelled}\nscoring: {settle_seconds: 0}\n"


class Desk:
    """A repository with data in DVC, and what its user does there."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, name: str, *texts: str, label: str = "billing") -> None:
        path = self.root / "data/labelled" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "".join([f"{line}\n" for line in ("text,label", *(f"{text},{label}" for text in texts))])
        )
        os.utime(path, (time.time() - 60,) * 2)

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        return sh("git", *arguments, cwd=cwd or self.root).strip()

    def commits(self) -> int:
        return int(self.git("rev-list", "--count", "main"))

    def texts(self) -> list[str]:
        """The texts of all batches that are in the working tree."""
        import pyarrow.parquet as pq

        batches = sorted((self.root / "data/source/train").glob("*.parquet"))
        return [text for batch in batches for text in pq.read_table(batch)["text"].to_pylist()]

    def waiting(self) -> list[str]:
        return sorted(path.name for path in (self.root / "data/labelled").iterdir() if path.is_file())


@pytest.fixture
def desk(tmp_path, monkeypatch, homes) -> Desk:
    root = tmp_path / "repo"
    (root / "data/source").mkdir(parents=True)
    shutil.copy(ROOT / ".gitignore", root)
    shutil.copy(ROOT / ".dvcignore", root)
    write_params(root, data={"source": "files", "text_columns": ["text"], "label_column": "label"})
    (root / "check.py").write_text(CHECK)
    (root / "dvc.yaml").write_text(STAGE)
    (root / "conf").mkdir()
    (root / "conf/flows.yaml").write_text(SETTINGS)
    for split in ("train", "validation", "test"):
        (root / f"data/source/{split}.csv").write_text(
            f"text,label\na parcel of {split},delivery\nan invoice of {split},billing\n"
        )
    sh("git", "init", "--quiet", "--initial-branch=main", cwd=root)
    sh("git", "config", "user.email", "tests@localhost", cwd=root)
    sh("git", "config", "user.name", "Tests", cwd=root)
    init_dvc(root)
    sh(
        "dvc",
        "add",
        "--quiet",
        *(f"data/source/{split}.csv" for split in ("train", "validation", "test")),
        cwd=root,
    )
    sh("git", "add", "--all", cwd=root)
    sh("git", "commit", "--quiet", "--message=Data", cwd=root)
    monkeypatch.setenv("TUNELINE_REPOSITORY", str(root))
    return Desk(root)


def test_new_rows_are_committed_once_with_where_they_came_from(served, desk):
    desk.put("monday.csv", "my invoice is wrong", "a parcel of train", "an invoice of test")
    desk.put("bad.csv", "x", label="biling")
    before = desk.commits()
    state = ingest(return_state=True)
    assert state.is_failed(), "a file that cannot be read is to be seen"
    assert "bad.csv, line 2, column 'label': the label is not one of" in state.message
    assert desk.commits() == before + 1, "but stops no other"
    assert desk.waiting() == []
    assert (desk.root / "data/labelled/done/monday.csv").exists()
    assert (desk.root / "data/labelled/refused/bad.csv").exists()
    assert desk.texts() == ["my invoice is wrong"], "the working tree of main follows"
    assert desk.git("status", "--porcelain") == ""
    message = desk.git("log", "-1", "--format=%B")
    assert message.startswith(
        "Ingest 1 new rows\n\n1 new, 1 conflicting, 1 held out (monday.csv)\n\nPrefect-Run: "
    )
    assert desk.git("show", "--name-only", "--format=").split() == ["data/source/train.dvc"]
    run = state.state_details.flow_run_id
    (event,) = until(lambda: events(served, "tuneline.data.ingested", run), 30, "the event")
    assert (event["payload"]["rows"], event["payload"]["commit"]) == (1, desk.git("rev-parse", "main"))

    desk.put("monday.csv", "my invoice is wrong")
    again = ingest(return_state=True)
    assert (again.name, again.message) == ("NothingNew", "0 new, 1 duplicate")
    assert desk.commits() == before + 1
    assert desk.waiting() == []
    assert len(list((desk.root / "data/labelled/done").iterdir())) == 2, "no file is overwritten"
    with locked(Repository(desk.root).state / "ingest.lock", wait=0):
        assert ingest(return_state=True).name == "Skipped"


def test_rows_that_contradict_the_data_are_counted_and_told_of(served, desk):
    desk.put("again.csv", "a parcel of train", "=a parcel of validation")
    before = desk.commits()
    state = ingest(return_state=True)
    assert state.message.startswith("1 rows to main")
    assert desk.commits() == before + 1
    assert "1 conflicting. Rows with another label" in state.message

    desk.put("once-more.csv", "a parcel of train")
    again = ingest(return_state=True)
    assert again.name == "NothingNew"
    assert desk.waiting() == []
    run = again.state_details.flow_run_id
    (event,) = until(lambda: events(served, "tuneline.data.conflicting", run), 30, "the event")
    assert event["payload"]["message"].startswith("0 new, 1 conflicting. Rows with another label")


@pytest.mark.promise("refused-rows")
def test_rows_that_the_checks_refuse_are_set_aside_and_nothing_is_committed(served, desk):
    desk.put("monday.csv", "a poison pill")
    before = desk.commits()
    state = ingest(return_state=True)
    assert state.is_failed()
    assert "label_set, train: 1 row with poison (allowed: 0)" in state.message
    assert desk.commits() == before
    assert (desk.root / "data/labelled/refused/monday.csv").exists()
    (event,) = until(
        lambda: events(served, "tuneline.data.refused", state.state_details.flow_run_id), 30, "the event"
    )
    assert event["payload"]["checks"] == ["label_set, train: 1 row with poison (allowed: 0)"]


@pytest.mark.promise("killed-ingest")
def test_branch_that_moved_meanwhile_and_origin_get_the_rows(served, desk, tmp_path):
    sh(
        "git",
        "init",
        "--quiet",
        "--bare",
        "--initial-branch=main",
        str(tmp_path / "origin.git"),
        cwd=tmp_path,
    )
    desk.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    add_remote(desk.root, tmp_path / "store")
    desk.git("commit", "--quiet", "--all", "--message=A remote")
    desk.git("push", "--quiet", "origin", "main")
    desk.put("monday.csv", "my invoice is wrong")
    (desk.root / "move-main").touch()
    assert ingest(return_state=True).is_failed(), "main moves while the checks run"
    assert desk.waiting() == ["monday.csv"]
    state = ingest(return_state=True)
    assert state.is_completed(), state.message
    assert desk.git("log", "-2", "--format=%s", "main").splitlines() == [
        "Ingest 1 new rows",
        "Meanwhile",
    ]

    desk.git("push", "--quiet", "origin", "main")
    desk.put("tuesday.csv", "my parcel is lost")
    settings = desk.root / "conf/flows.yaml"
    settings.write_text(SETTINGS + "training: {ref: origin/main}\n")
    assert "new rows would not be pushed" in ingest(return_state=True).message, "no training would see them"
    settings.write_text(SETTINGS + "training: {ref: origin/main, push: true}\n")
    state = ingest(return_state=True)
    assert state.is_completed(), state.message
    sh("git", "clone", "--quiet", str(tmp_path / "origin.git"), "clone", cwd=tmp_path)
    sh("dvc", "pull", "--quiet", "data/source/train.dvc", cwd=tmp_path / "clone")
    assert len(list((tmp_path / "clone/data/source/train").iterdir())) == 2


def test_rows_are_committed_to_the_branch_that_is_trained(served, desk):
    settings = desk.root / "conf/flows.yaml"
    desk.git("tag", "v1")
    desk.put("monday.csv", "my invoice is wrong")
    settings.write_text(SETTINGS + "training: {ref: v1}\n")
    assert "'v1', which is no branch" in ingest(return_state=True).message
    desk.git("branch", "trunk")
    settings.write_text(SETTINGS + "training: {ref: trunk}\n")
    assert ingest(return_state=True).message.startswith("1 rows to trunk")
    assert desk.git("log", "-1", "--format=%s", "trunk") == "Ingest 1 new rows"


KILLED = """
import sys
from flows.ingest import ingest
from tests.faults.kills import killed

def step(event, arguments):
    if event == "subprocess.Popen" and arguments[1][0] == "git":
        return bool({"commit", "merge"} & set(arguments[1]))
    return event == "os.rename" and "data/" in str(arguments[0])

print(killed(lambda: ingest(return_state=True), int(sys.argv[1]), step))
"""


@pytest.mark.promise("killed-ingest")
def test_run_killed_at_any_instant_leaves_every_row_once(served, desk):
    env = {**served.env, "TUNELINE_REPOSITORY": str(desk.root), "PYTHONPATH": str(ROOT)}
    expected = []
    for number in range(1, 30):
        expected.append(f"my invoice {number} is wrong")
        desk.put(
            f"{number}.csv", expected[-1]
        )  # what the kill before left is dealt with by the next run, which has a file more
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(number)],
            env=env,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=120,
        )
        if done.stdout.strip().endswith("False"):
            break
    else:
        raise AssertionError("it never ended by itself")
    assert number > 5, "it was killed often"
    assert sorted(desk.texts()) == sorted(expected)
    assert desk.waiting() == []
    assert len(list((desk.root / "data/labelled/done").iterdir())) == len(expected)
    assert desk.git("status", "--porcelain") == ""
