"""A cleaning that is killed at any instant: the repository works, and the next cleaning completes it."""

import shutil
from pathlib import Path

import pytest

from flows.clean import clean_all
from flows.inbox import RefusedRecord
from flows.runs.checkout import isolated
from flows.runs.repository import Repository
from tests.faults.clones import git
from tests.faults.kills import kills
from tests.flows.clean.conftest import Past, cleaning_of
from tuneline.core.written_records import write_record
from tuneline.settings import Settings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LIMITS = {"branch_days": 30, "checkouts": 2, "checkpoint_days": 30, "models": 1, "refused_days": 30}


def is_step(event: str, arguments: tuple) -> bool:
    """Every program that is started, rename, and removal; of the many in one folder the first."""
    if event == "os.remove":
        return not str(arguments[0]).endswith(".lock")
    return event in {"subprocess.Popen", "os.rename", "os.rmdir"}


def left(root: Path) -> set[str]:
    branches = git(root, "for-each-ref", "--format=%(refname)", "refs/heads").split()
    files = (path for folder in (".dvc/tmp/flows", "data") for path in (root / folder).rglob("*"))
    return {*branches, *(path.relative_to(root).as_posix() for path in files if path.suffix != ".lock")}


@pytest.mark.promise("killed-clean")
def test_killed_cleaning_is_completed_by_the_next(clone: Repository, past: Past, tmp_path):
    for number in range(3):
        past.failure(f"failed-{number}", 40 + number)
        past.run(f"old-{number}", 40)
        (clone.state / "models" / f"onnx-{number}").mkdir(parents=True)
        (clone.state / "models" / f"onnx-{number}" / "model.onnx").touch()
        path = clone.root / "data" / "scored" / f"{number}.csv.error.json"
        write_record(path, RefusedRecord(path=f"{number}.csv", size=1, mtime_ns=1, error="It is bad."))
        past.age(path, 40)
    past.run("young", 1)
    shutil.copytree(clone.root, tmp_path / "before", symlinks=True)

    def clean() -> None:
        _, problems = clean_all(cleaning_of(clone, **LIMITS), Settings())
        assert problems == []

    clean()
    expected = left(clone.root)
    assert [path for path in expected if "old" in path] == []
    number = 0
    for number in kills(clean, is_step):
        with isolated(clone, f"next-{number}", "main"):
            pass
        git(clone.root, "fsck", "--no-dangling")
        clean()
        assert left(clone.root) == expected, f"killed before step {number}"
        shutil.rmtree(clone.root)
        shutil.copytree(tmp_path / "before", clone.root, symlinks=True)
    assert number > 20, "it was killed often"
