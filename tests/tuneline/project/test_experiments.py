"""Experiments as git commits that DVC knows, in real repositories of git and DVC with a pipeline of two quick
stages."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.conftest import made_once
from tests.dvc_files import init_dvc
from tests.project import GIT_IDENTITY
from tuneline.core.errors import StageError
from tuneline.core.yaml_files import read_yaml
from tuneline.project import experiments
from tuneline.project.experiments import (
    Experiment,
    find_experiment,
    opened,
    resolve_revision,
    saved_experiments,
)
from tuneline.project.repo import lock_at, unversioned

STAGE = """
    import json, signal, sys, time
    from pathlib import Path
    params = dict(line.split(": ") for line in Path("params.yaml").read_text().splitlines())
    if sys.argv[1] == "train":
        checkpoint = Path("checkpoints/step")
        checkpoint.parent.mkdir(exist_ok=True)
        first = int(checkpoint.read_text()) if checkpoint.exists() else 0
        stop = lambda *_: sys.exit(75)
        signal.signal(signal.SIGTERM, stop)
        print("train: starts after step", first, flush=True)
        for step in range(first + 1, 6):
            time.sleep(float(params["pause"]))
            checkpoint.write_text(str(step))
        Path("model.txt").write_text(f"skill {params['skill']}, source {Path('source/rows.txt').read_text()}")
        Path("metrics").mkdir(exist_ok=True)
        metrics = {"best_accuracy": float(params["skill"]), "resumed": first}
        Path("metrics/train.json").write_text(json.dumps(metrics))
    else:
        model = Path("model.txt").read_text()
        Path("metrics/evaluate.json").write_text(json.dumps({"accuracy": float(params["skill"])}))
        Path("predictions.txt").write_text(model)
"""
PIPELINE = """
    stages:
      train:
        cmd: python stage.py train
        deps: [source, stage.py]
        params: [skill, pause]
        outs: [model.txt]
        metrics: [{metrics/train.json: {cache: false}}]
      evaluate:
        cmd: python stage.py evaluate
        deps: [model.txt]
        outs: [predictions.txt]
        metrics: [{metrics/evaluate.json: {cache: false}}]
"""
PARAMS = "skill: 0.5\npause: 0.0\n"


def sh(root: Path, *command: str, check: bool = True) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **GIT_IDENTITY, "PATH": path},
    )
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done.stdout


def make_repository(root: Path) -> None:
    """Write a repository whose pipeline ran and was committed; DVC has its source."""
    root.mkdir()
    sh(root, "git", "init", "--quiet", "--initial-branch=main")
    init_dvc(root)
    (root / "stage.py").write_text(textwrap.dedent(STAGE))
    (root / "dvc.yaml").write_text(textwrap.dedent(PIPELINE))
    (root / "params.yaml").write_text(PARAMS)
    (root / "source").mkdir()
    (root / "source/rows.txt").write_text("rows\n")
    (root / ".gitignore").write_text("/checkpoints/\n")
    sh(root, "dvc", "add", "--quiet", "source/rows.txt")
    sh(root, "dvc", "repro", "--quiet")
    sh(root, "git", "add", "--all")
    sh(root, "git", "commit", "--quiet", "--message=Run the pipeline")


@pytest.fixture(scope="session")
def template(tmp_path_factory, homes) -> Path:
    return made_once(tmp_path_factory, "experiments", make_repository)


@pytest.fixture
def root(template, tmp_path) -> Path:
    shutil.copytree(template, tmp_path / "repo", symlinks=True)
    return tmp_path / "repo"


def skill(value: float, pause: float = 0.0) -> str:
    return f"skill: {value}\npause: {pause}\n"


def run(root: Path, name: str, params: str, target: str | None = "train") -> experiments.SavedExperiment:
    with opened(root, name, params) as experiment:
        assert experiment.reproduce(*([target] if target else [])) == 0
        saved = experiment.save({"seconds": 1.5}, target)
        experiment.discard()
    return saved


def status(root: Path) -> str:
    return sh(root, "git", "status", "--porcelain")


def test_experiment_leaves_the_working_tree_as_it_was(root):
    before = status(root), (root / "dvc.lock").read_bytes(), (root / "model.txt").read_bytes()
    run(root, "better", skill(0.7))
    assert (status(root), (root / "dvc.lock").read_bytes(), (root / "model.txt").read_bytes()) == before
    assert sh(root, "git", "worktree", "list").count("\n") == 1
    assert not [path for path in (root / experiments.EXPERIMENT_STATE).iterdir() if path.name != ".gitignore"]


def test_saved_experiment_has_parameters_and_metrics_of_the_training_only(root):
    saved = run(root, "better", skill(0.7))
    assert saved.params == {"skill": 0.7, "pause": 0.0}
    assert saved.metrics()["best_accuracy"] == 0.7
    assert saved.metrics("evaluate") == {}, "those of HEAD are of another model"
    assert set(saved.lock.stages) == {"train"}
    assert saved.record["seconds"] == 1.5
    assert (
        sh(root, "git", "rev-parse", f"{saved.commit}^").strip()
        == sh(root, "git", "rev-parse", "HEAD").strip()
    )


def test_entries_of_later_stages_stay_in_dvc_lock(root):
    """Without them, ``dvc exp apply`` fails; they do not fit the model."""
    saved = run(root, "better", skill(0.7))
    written = lock_at(root, saved.commit)
    assert set(written.stages) == {"train", "evaluate"}
    assert written.out("predictions.txt")
    assert saved.lock.out("predictions.txt") is None


def test_whole_pipeline_keeps_all_metrics(root):
    saved = run(root, "tested", skill(0.7), target=None)
    assert saved.metrics("evaluate") == {"accuracy": 0.7}
    assert set(saved.lock.stages) == {"train", "evaluate"}


def test_dvc_lists_shows_and_applies_a_saved_experiment(root):
    """And the next ``dvc repro`` computes what comes after the training, once."""
    run(root, "lr=0.7", skill(0.7))
    assert "lr=0.7" in sh(root, "dvc", "exp", "list", "--name-only")
    shown = json.loads(sh(root, "dvc", "exp", "show", "--json"))
    names = {exp["name"]: exp["revs"][0]["data"] for rev in shown for exp in rev.get("experiments") or []}
    assert names["lr=0.7"]["metrics"]["metrics/train.json"]["data"]["best_accuracy"] == 0.7
    assert "accuracy" not in names["lr=0.7"]["metrics"].get("metrics/evaluate.json", {}).get("data", {})
    sh(root, "dvc", "exp", "apply", "lr=0.7")
    assert read_yaml(root / "params.yaml")["skill"] == 0.7
    assert (root / "model.txt").read_text().startswith("skill 0.7")
    repro = sh(root, "dvc", "repro")
    assert "Stage 'train' didn't change" in repro
    assert "Running stage 'evaluate'" in repro
    assert json.loads((root / "metrics/evaluate.json").read_text()) == {"accuracy": 0.7}


def test_dvc_pushes_a_saved_experiment(root, tmp_path):
    sh(root, "git", "init", "--quiet", "--bare", str(tmp_path / "origin.git"))
    sh(root, "git", "remote", "add", "origin", str(tmp_path / "origin.git"))
    (tmp_path / "shelf").mkdir()
    sh(root, "dvc", "remote", "add", "--default", "shelf", str(tmp_path / "shelf"))
    saved = run(root, "better", skill(0.7))
    sh(root, "dvc", "exp", "push", "origin", "better")
    assert sh(tmp_path / "origin.git", "git", "rev-parse", saved.ref).strip() == saved.commit
    md5 = saved.lock.out("model.txt")
    assert (tmp_path / "shelf/files/md5" / md5[:2] / md5[2:]).is_file()


def test_uncommitted_changes_and_new_files_are_in_the_experiment(root):
    (root / "stage.py").write_text((root / "stage.py").read_text().replace("skill {", "talent {"))
    (root / "conf").mkdir()
    (root / "conf/new.yaml").write_text("a: 1\n")
    (root / "notes.txt").write_text("mine\n")
    before = status(root)
    saved = run(root, "better", skill(0.7))
    assert status(root) == before
    tree = sh(root, "git", "ls-tree", "-r", "--name-only", saved.commit).split()
    assert "conf/new.yaml" in tree
    assert "notes.txt" not in tree, "a new file elsewhere may be secret"
    assert "talent" in sh(root, "git", "show", f"{saved.commit}:stage.py")
    md5 = saved.lock.out("model.txt")
    assert (root / ".dvc/cache/files/md5" / md5[:2] / md5[2:]).read_text().startswith("talent 0.7")


def test_interrupted_experiment_is_kept_and_goes_on_from_its_checkpoint(root):
    with pytest.raises(RuntimeError), opened(root, "slow", skill(0.7)) as experiment:
        (experiment.path / "checkpoints").mkdir()
        (experiment.path / "checkpoints/step").write_text("3")
        raise RuntimeError
    assert experiments.unfinished(root) == ["slow"]
    with opened(root, "slow", skill(0.7)) as experiment:
        assert experiment.resumed
        assert experiment.reproduce("train") == 0
        assert experiment.save({}).metrics()["resumed"] == 3


def test_checkpoints_outlive_a_change_of_the_inputs(root):
    """The training compares its inputs itself, and the code may have been corrected."""
    with pytest.raises(RuntimeError), opened(root, "slow", skill(0.7)) as experiment:
        (experiment.path / "checkpoints").mkdir()
        (experiment.path / "checkpoints/step").write_text("3")
        raise RuntimeError
    with opened(root, "slow", skill(0.8)) as experiment:
        assert not experiment.resumed
        assert read_yaml(experiment.path / "params.yaml")["skill"] == 0.8
        assert (experiment.path / "checkpoints/step").read_text() == "3"


PROGRAM = """
    import sys
    from pathlib import Path
    from tuneline.project.experiments import opened
    with opened(Path(sys.argv[1]), "slow", sys.argv[2]) as experiment:
        print("code", experiment.reproduce("train"))
        experiment.save({})
        experiment.discard()
"""


def started(root: Path, params: str) -> subprocess.Popen[str]:
    """Start an experiment in a process of its own, and wait for the second step of its training."""
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(root), params]
    process = subprocess.Popen(
        program,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **GIT_IDENTITY},
    )
    step = root / experiments.EXPERIMENT_STATE / "slow/checkpoints/step"
    until = time.monotonic() + 120
    while not (step.exists() and step.read_text() in {"2", "3"}):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.05)
    return process


@pytest.mark.parametrize("number", [pytest.param(signal.SIGKILL, marks=pytest.mark.slow), signal.SIGINT])
def test_stopped_experiment_goes_on_when_started_again(root, number):
    process = started(root, skill(0.7, 0.5))
    with (
        pytest.raises(StageError, match=f"process {process.pid}"),
        opened(root, "slow", skill(0.7, 0.5)),
    ):
        pass
    process.send_signal(number)
    process.communicate()
    assert saved_experiments(root) == []
    with opened(root, "slow", skill(0.7, 0.5)) as experiment:  # waits for what a killed process has left
        assert experiment.resumed
        assert experiment.reproduce("train") == 0
        assert experiment.save({}).metrics()["resumed"] >= 2


def test_damaged_dvc_lock_is_repaired(root):
    with pytest.raises(RuntimeError), opened(root, "slow", skill(0.7)) as experiment:
        (experiment.path / "dvc.lock").write_text("")
        raise RuntimeError
    assert run(root, "slow", skill(0.7)).metrics()["best_accuracy"] == 0.7


@pytest.mark.parametrize(
    "name",
    ["", "-f", "../up", "a/b", "a b", "a..b", "x.lock", "a~1", ".hidden", "a\nb", "main", "HEAD", "x" * 101],
)
def test_odd_name_is_refused(root, name):
    with (
        pytest.raises(StageError, match=r"be the name|the name of"),
        opened(root, name, skill(0.7)),
    ):
        pass
    assert experiments.unfinished(root) == []


def test_experiments_are_found_by_name_and_the_one_on_head_first(root):
    first = run(root, "better", skill(0.7))
    sh(root, "git", "commit", "--quiet", "--allow-empty", "--message=Later")
    assert find_experiment(root, "better") == first
    second = run(root, "better", skill(0.8))
    assert find_experiment(root, "better") == second
    assert resolve_revision(root, "better") == second.commit
    assert resolve_revision(root, "main") == sh(root, "git", "rev-parse", "main").strip()
    assert resolve_revision(root, "unknown") is None
    assert [one.name for one in saved_experiments(root)] == ["better", "better"]
    experiments.delete(second)
    assert saved_experiments(root) == [first]


def test_saving_again_replaces_the_experiment(root):
    run(root, "better", skill(0.7))
    saved = run(root, "better", skill(0.8))
    assert saved_experiments(root) == [saved]


def test_removed_unfinished_experiment_leaves_nothing(root):
    with pytest.raises(RuntimeError), opened(root, "slow", skill(0.7)):
        raise RuntimeError
    experiments.remove_unfinished(root, "slow")
    assert experiments.unfinished(root) == []
    assert sh(root, "git", "worktree", "list").count("\n") == 1


def test_unversioned_data_is_found(root):
    (root / ".gitignore").write_text(
        "/data/source/?*\n!/data/source/*.dvc\n/models/source/?*\n!/models/source/*.dvc\n"
    )
    (root / "data/source/mine").mkdir(parents=True)
    (root / "data/source/mine/all.csv").write_text("a\n")
    (root / "data/source/known.csv").write_text("b\n")
    (root / "models/source/bert").mkdir(parents=True)
    (root / "models/source/bert/config.json").write_text("{}")
    sh(root, "dvc", "add", "--quiet", "data/source/known.csv")
    assert [str(path) for path in unversioned(root)] == ["data/source/mine", "models/source/bert"]
    sh(root, "dvc", "add", "--quiet", "data/source/mine", "models/source/bert")
    assert unversioned(root) == []


def test_experiment_fields_name_its_folder(root):
    with opened(root, "better", skill(0.7)) as experiment:
        assert isinstance(experiment, Experiment)
        assert experiment.path == root / ".dvc/tmp/experiments/better"
        experiment.discard()
