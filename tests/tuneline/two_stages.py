"""A repository of git and DVC whose pipeline has two quick stages, a training and an evaluation, and the
experiments in it."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.dvc_files import init_dvc
from tests.project import GIT_IDENTITY
from tuneline.experiments.in_progress import opened
from tuneline.experiments.saved import SavedExperiment

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


def skill(value: float, pause: float = 0.0) -> str:
    return f"skill: {value}\npause: {pause}\n"


def run(root: Path, name: str, params: str, target: str | None = "train") -> SavedExperiment:
    with opened(root, name, params) as experiment:
        assert experiment.reproduce(*([target] if target else [])) == 0
        saved = experiment.save({"seconds": 1.5}, target)
        experiment.discard()
    return saved
