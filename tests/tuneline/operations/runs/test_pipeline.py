"""Stages that a signal kills, in a pipeline that DVC runs."""

import subprocess
import sys
import textwrap

import pytest
from prefect.logging import disable_run_logger

from tests.dvc_files import add_remote
from tests.flows.conftest import sh
from tuneline.core.repository.programs import ProgramError, Programs
from tuneline.core.settings import StagePolicy
from tuneline.operations.runs.pipeline import PermanentError, Pipeline, stage_task


@pytest.fixture
def seen() -> list[str]:
    return []


@pytest.fixture
def pipeline(toy, seen):
    return Pipeline(Programs(toy.root, "test-line"), seen.append, lock_wait=20)


def set_params(toy, old: str, new: str) -> None:
    """Data that no run of the template has seen: DVC would restore theirs from its cache."""
    path = toy.root / "params.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_reproduce_runs_then_skips_then_restores(pipeline, toy, seen):
    set_params(toy, "rows: 600", "rows: 599")
    assert pipeline.reproduce("data") == "ran"
    assert pipeline.reproduce("data") == "skipped"
    (toy.root / "dvc.lock").unlink()
    assert pipeline.reproduce("data") == "restored"
    assert not [said for said in seen if "git add" in said]


def test_failed_stage_error_has_its_output(pipeline, toy):
    set_params(toy, "fails: 0, counter: null", "fails: 1, counter: attempts")
    with pytest.raises(ProgramError, match=r"'data'(.|\n)*network"):
        pipeline.reproduce("data")


def hold_lock(toy, seconds: float) -> subprocess.Popen:
    """Another DVC at work: what holds its lock is a process of its own."""
    script = f"""
        import time
        from dvc.repo import Repo
        with Repo({str(toy.root)!r}).lock:
            print("held", flush=True)
            time.sleep({seconds})
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    return holder


@pytest.mark.slow
def test_dvc_waits_for_a_busy_lock(pipeline, toy, seen):
    set_params(toy, "rows: 600", "rows: 598")
    with hold_lock(toy, 6):
        assert pipeline.reproduce("data") == "ran"
    assert any("waiting for it" in said for said in seen)


def test_restore_takes_sources_from_the_cache_else_from_the_remote(pipeline, toy, tmp_path):
    add_remote(toy.root, tmp_path / "shelf")
    (toy.root / "source.csv").write_text("a,b\n")
    sh("dvc", "add", "--quiet", "source.csv", cwd=toy.root)
    sh("dvc", "push", "--quiet", cwd=toy.root)
    sources = pipeline.graph().sources
    assert sources == ("source.csv.dvc",)
    (toy.root / "source.csv").unlink()
    pipeline.restore(sources)
    assert (toy.root / "source.csv").exists()
    (toy.root / "source.csv").unlink()
    sh("rm", "-rf", ".dvc/cache", cwd=toy.root)
    pipeline.restore(sources)
    assert (toy.root / "source.csv").read_text() == "a,b\n"


@pytest.fixture
def stage(toy, pipeline):
    """Return a function that gives the first stage another command, and runs its task as the flow does."""

    def run(command: str, **policy):
        file = toy.root / "dvc.yaml"
        file.write_text(
            file.read_text().replace(
                "cmd: python toy.py data", f"cmd: {command}; echo x >> began; python toy.py data"
            )
        )
        with disable_run_logger():
            return stage_task("data", StagePolicy(**policy)).fn(pipeline)

    return run


def test_stage_whose_data_are_wrong_is_not_started_again(stage):
    with pytest.raises(PermanentError, match="exited with 78"):
        stage("exit 78")
