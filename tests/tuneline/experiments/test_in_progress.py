"""Experiments in progress, in real repositories of git and DVC with a pipeline of two quick stages."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.project import GIT_IDENTITY
from tests.tuneline.two_stages import run, sh, skill
from tuneline.core.yaml_files import read_yaml
from tuneline.experiments import in_progress
from tuneline.experiments.in_progress import Experiment, opened
from tuneline.experiments.saved import saved_experiments
from tuneline.runtime.errors import StageError


def status(repository: Path) -> str:
    return sh(repository, "git", "status", "--porcelain")


def test_experiment_leaves_the_working_tree_as_it_was(repository):
    before = (
        status(repository),
        (repository / "dvc.lock").read_bytes(),
        (repository / "model.txt").read_bytes(),
    )
    run(repository, "better", skill(0.7))
    assert (
        status(repository),
        (repository / "dvc.lock").read_bytes(),
        (repository / "model.txt").read_bytes(),
    ) == before
    assert sh(repository, "git", "worktree", "list").count("\n") == 1
    assert not [
        path for path in (repository / in_progress.EXPERIMENT_STATE).iterdir() if path.name != ".gitignore"
    ]


def test_uncommitted_changes_and_new_files_are_in_the_experiment(repository):
    (repository / "stage.py").write_text((repository / "stage.py").read_text().replace("skill {", "talent {"))
    (repository / "conf").mkdir()
    (repository / "conf/new.yaml").write_text("a: 1\n")
    (repository / "notes.txt").write_text("mine\n")
    before = status(repository)
    saved = run(repository, "better", skill(0.7))
    assert status(repository) == before
    tree = sh(repository, "git", "ls-tree", "-r", "--name-only", saved.commit).split()
    assert "conf/new.yaml" in tree
    assert "notes.txt" not in tree, "a new file elsewhere may be secret"
    assert "talent" in sh(repository, "git", "show", f"{saved.commit}:stage.py")
    md5 = saved.lock.out("model.txt")
    assert (repository / ".dvc/cache/files/md5" / md5[:2] / md5[2:]).read_text().startswith("talent 0.7")


def test_interrupted_experiment_is_kept_and_goes_on_from_its_checkpoint(repository):
    with pytest.raises(RuntimeError), opened(repository, "slow", skill(0.7)) as experiment:
        (experiment.path / "checkpoints").mkdir()
        (experiment.path / "checkpoints/step").write_text("3")
        raise RuntimeError
    assert in_progress.unfinished(repository) == ["slow"]
    with opened(repository, "slow", skill(0.7)) as experiment:
        assert experiment.resumed
        assert experiment.reproduce("train") == 0
        assert experiment.save({}).metrics()["resumed"] == 3


def test_checkpoints_outlive_a_change_of_the_inputs(repository):
    """The training compares its inputs itself, and the code may have been corrected."""
    with pytest.raises(RuntimeError), opened(repository, "slow", skill(0.7)) as experiment:
        (experiment.path / "checkpoints").mkdir()
        (experiment.path / "checkpoints/step").write_text("3")
        raise RuntimeError
    with opened(repository, "slow", skill(0.8)) as experiment:
        assert not experiment.resumed
        assert read_yaml(experiment.path / "params.yaml")["skill"] == 0.8
        assert (experiment.path / "checkpoints/step").read_text() == "3"


PROGRAM = """
    import sys
    from pathlib import Path
    from tuneline.experiments.in_progress import opened
    with opened(Path(sys.argv[1]), "slow", sys.argv[2]) as experiment:
        print("code", experiment.reproduce("train"))
        experiment.save({})
        experiment.discard()
"""


def started(repository: Path, params: str) -> subprocess.Popen[str]:
    """Start an experiment in a process of its own, and wait for the second step of its training."""
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(repository), params]
    process = subprocess.Popen(
        program,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **GIT_IDENTITY},
    )
    step = repository / in_progress.EXPERIMENT_STATE / "slow/checkpoints/step"
    until = time.monotonic() + 120
    while not (step.exists() and step.read_text() in {"2", "3"}):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.05)
    return process


@pytest.mark.parametrize("number", [pytest.param(signal.SIGKILL, marks=pytest.mark.slow), signal.SIGINT])
def test_stopped_experiment_goes_on_when_started_again(repository, number):
    process = started(repository, skill(0.7, 0.5))
    with (
        pytest.raises(StageError, match=f"process {process.pid}"),
        opened(repository, "slow", skill(0.7, 0.5)),
    ):
        pass
    process.send_signal(number)
    process.communicate()
    assert saved_experiments(repository) == []
    with opened(
        repository, "slow", skill(0.7, 0.5)
    ) as experiment:  # waits for what a killed process has left
        assert experiment.resumed
        assert experiment.reproduce("train") == 0
        assert experiment.save({}).metrics()["resumed"] >= 2


def test_damaged_dvc_lock_is_repaired(repository):
    with pytest.raises(RuntimeError), opened(repository, "slow", skill(0.7)) as experiment:
        (experiment.path / "dvc.lock").write_text("")
        raise RuntimeError
    assert run(repository, "slow", skill(0.7)).metrics()["best_accuracy"] == 0.7


@pytest.mark.parametrize(
    "name",
    ["", "-f", "../up", "a/b", "a b", "a..b", "x.lock", "a~1", ".hidden", "a\nb", "main", "HEAD", "x" * 101],
)
def test_odd_name_is_refused(repository, name):
    with (
        pytest.raises(StageError, match=r"be the name|the name of"),
        opened(repository, name, skill(0.7)),
    ):
        pass
    assert in_progress.unfinished(repository) == []


def test_removed_unfinished_experiment_leaves_nothing(repository):
    with pytest.raises(RuntimeError), opened(repository, "slow", skill(0.7)):
        raise RuntimeError
    in_progress.remove_unfinished(repository, "slow")
    assert in_progress.unfinished(repository) == []
    assert sh(repository, "git", "worktree", "list").count("\n") == 1


def test_experiment_fields_name_its_folder(repository):
    with opened(repository, "better", skill(0.7)) as experiment:
        assert isinstance(experiment, Experiment)
        assert experiment.path == repository / ".dvc/tmp/experiments/better"
        experiment.discard()
