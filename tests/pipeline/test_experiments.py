"""Experiments by the commands of their users, on the real pipeline with a small model."""

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.project import GIT_IDENTITY, SMALL, Project
from tuneline.experiments.in_progress import EXPERIMENT_STATE
from tuneline.experiments.saved import SavedExperiment, find_experiment, saved_experiments

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.slow,
]  # tests/tuneline/experiments/test_in_progress.py has a pipeline of two stages


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    """Return a project whose pipeline has not run, in which ``tuneline run`` has scored the base."""
    project = Project.copy_to(tmp_path_factory.mktemp("project"))
    project.set_params(
        {
            **SMALL,
            "data.sample.rows": 400,
            "compare.int8.min_agreement": 0.5,
            "compare.int8.max_metric_drop": 0.5,
        }
    )
    text = (
        (project.folder / "params.yaml")
        .read_text()
        .replace("  learning_rate:", "  # chosen by hand\n  learning_rate:")
    )
    (project.folder / "params.yaml").write_text(text)
    project.commit("Start")
    output = project.run("tuneline", "run").stdout
    assert re.search(
        r"run: base: validation accuracy 0\.\d{3} \(0\.\d{3} to 0\.\d{3}\)\. Next: `tuneline run KEY=VALUE`",
        output,
    ), output
    return project


def experiment(project: Project, name: str) -> SavedExperiment:
    found = find_experiment(project.folder, name)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def better(project) -> SavedExperiment:
    """An experiment with two epochs and a lower learning rate."""
    output = project.run("tuneline", "run", "train.epochs=2", "train.learning_rate=3e-4").stdout
    name = "epochs=2,learning_rate=3e-4"
    line = output.splitlines()[-1]
    against = r"(cannot be told apart on [\d,]+ rows|clearly different|equal within 0\.01)"
    assert re.fullmatch(
        rf"run: {name}: validation accuracy 0\.\d+ \(.*\), [+-]0\.\d+ \([+-]0\.\d+ to [+-]0\.\d+\) against"
        rf" base: {against}\. "
        rf"Next: `tuneline experiments`, `tuneline experiments apply {name}`",
        line,
    ), output
    return experiment(project, name)


def test_run_trains_beside_the_tree_and_keeps_the_comments(project, better):
    assert project.status() == ""
    assert not (project.folder / "models/classifier").exists()
    text = project.run("git", "show", f"{better.commit}:params.yaml").stdout
    changed = project.run("git", "diff", "--unified=0", "HEAD", better.commit, "--", "params.yaml").stdout
    assert "# chosen by hand\n  learning_rate: 0.0003" in text
    assert len([line for line in changed.splitlines() if re.match(r"\+ ", line)]) == 2


def test_interval_and_predictions_are_of_the_kept_step(project, better):
    metrics = better.metrics()
    assert metrics["best_accuracy_low"] < metrics["best_accuracy"] < metrics["best_accuracy_high"]
    assert better.lock.out("reports/validation.parquet")
    assert better.metrics("evaluate") == {}
    assert better.record["seconds"] > 0


def test_table_has_the_difference_and_csv_has_all_values(project, better):
    shown = project.run("tuneline", "experiments", COLUMNS="200").stdout
    assert "epochs=2, learning_rate=0.0003" in shown
    assert "nothing" in shown
    rows = list(csv.DictReader(io.StringIO(project.run("tuneline", "experiments", "--csv").stdout)))
    by_name = {row["name"]: row for row in rows}
    assert by_name[better.name]["train.learning_rate"] == "0.0003"
    assert float(by_name["base"]["train.learning_rate"]) != 0.0003
    assert float(by_name[better.name]["validation"]) == better.metrics()["best_accuracy"]
    assert [row["distinguishable"] for row in rows].count("") == 1, "the best one"
    only = project.run("tuneline", "experiments", "--csv", "--filter", "rate=0.0003").stdout
    assert len(only.splitlines()) == 2
    sorted_rows = csv.DictReader(
        io.StringIO(project.run("tuneline", "experiments", "--csv", "--sort", "epochs").stdout)
    )
    assert next(sorted_rows)["name"] == better.name, "values that differ come before those of HEAD"


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("train.lr=1e-4", "train.lr: unknown key; did you mean train.learning_rate?"),
        ("train.learning_rate=-1", "train.learning_rate: input should be greater than 0"),
        ("--name=../up", "'../up' cannot be the name of an experiment"),
        ("--name=base", "Experiment base exists, with other parameters"),
    ],
)
def test_wrong_value_or_name_changes_nothing(project, override, named):
    refs = project.run("git", "for-each-ref").stdout
    done = project.run("tuneline", "run", "train.epochs=3", override, check=False)
    assert done.returncode == 1
    assert named in done.stdout
    assert project.status() == ""
    assert project.run("git", "for-each-ref").stdout == refs
    assert not list((project.folder / EXPERIMENT_STATE).glob("*/"))


def test_dvc_knows_the_experiments(project, better):
    assert better.name in project.run("dvc", "exp", "list", "--name-only").stdout
    shown = json.loads(project.run("dvc", "exp", "show", "--json").stdout)
    data = [
        one["revs"][0]["data"]
        for rev in shown
        for one in rev.get("experiments") or []
        if one["name"] == better.name
    ]
    assert (
        data[0]["metrics"]["metrics/train.json"]["data"]["best_accuracy"] == better.metrics()["best_accuracy"]
    )


def start(project: Project, *overrides: str) -> subprocess.Popen[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["tuneline", "run", *overrides]
    env = {**os.environ, "PATH": path, **GIT_IDENTITY}
    return subprocess.Popen(
        command, cwd=project.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def wait_for_step(process: subprocess.Popen[str], checkpoints: Path, step: int) -> None:
    until = time.monotonic() + 240
    while not any(int(path.name.removeprefix("step-")) >= step for path in checkpoints.glob("*/step-*")):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.02)


LONG = ("train.epochs=12", "run.checkpoint_every_steps=5")


def test_killed_and_interrupted_run_ends_with_the_model_of_an_undisturbed_one(project):
    checkpoints = project.folder / EXPERIMENT_STATE / "disturbed/checkpoints"
    process = start(project, *LONG, "--name", "disturbed")
    wait_for_step(process, checkpoints, 10)
    process.kill()
    process.communicate()
    process = start(project, *LONG, "--name", "disturbed")
    wait_for_step(process, checkpoints, 40)
    process.send_signal(signal.SIGINT)
    output = process.communicate()[0]
    assert process.returncode == 130
    assert "Traceback" not in output
    assert re.search(
        r"run: interrupted\. It resumes from step \d+: tuneline run train\.epochs=12 run\.check\S+ --name"
        r" disturbed\n",
        output,
    )
    assert "not finished: disturbed" in project.run("tuneline", "experiments").stdout
    assert "resumes from step" in project.run("tuneline", "run", *LONG, "--name", "disturbed").stdout
    for entry in (project.folder / ".dvc/cache/runs").glob("*/*/*"):  # else DVC has the result
        if "stages.train.launch" in entry.read_text():
            shutil.rmtree(entry.parent)
    assert "resumes from step" not in project.run("tuneline", "run", *LONG, "--name", "undisturbed").stdout
    disturbed, undisturbed = (experiment(project, name).lock for name in ("disturbed", "undisturbed"))
    for out in ("models/classifier", "plots/training", "reports/validation.parquet", "metrics/train.json"):
        assert disturbed.out(out) == undisturbed.out(out)
    assert project.status() == ""


def test_two_run_at_once(project):
    processes = [start(project, f"seed={seed}") for seed in (1, 2)]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert experiment(project, "seed=1").params["seed"] == 1
    assert experiment(project, "seed=2").params["seed"] == 2


def test_task_is_composed_with_other_values(project):
    project.run(
        "tuneline",
        "run",
        "task=tickets",
        "train.epochs=1",
        "data.sample.rows=400",
        "tokenize.vocab_size=600",
        "--name",
        "other",
    )
    text = project.run("git", "show", f"{experiment(project, 'other').commit}:params.yaml").stdout
    assert "# chosen by hand\n" in text
    assert experiment(project, "other").params["train"]["epochs"] == 1


def test_page_draws_all_and_escapes_names(project, better, tmp_path):
    project.run("tuneline", "experiments", "page")
    page = (project.folder / "reports/experiments.html").read_text(encoding="utf-8")
    assert better.name in page
    assert {'id="curves"', 'id="parameters"', 'id="table"'} <= set(re.findall(r'id="\w+"', page))
    assert not re.search(r"<script|https?://(?!www\.w3\.org)", page)


def test_applied_experiment_is_scored_on_test_by_repro(project, better, tmp_path):
    """In a copy: the others need this tree as it is."""
    copy = Project(tmp_path / "copy")
    shutil.copytree(project.folder, copy.folder, symlinks=True)
    copy.run("dvc", "repro")
    copy.commit("Run the pipeline")
    params = (copy.folder / "params.yaml").read_text()
    (copy.folder / "params.yaml").write_text(params.replace("# chosen by hand", "# chosen by foot"))
    copy.run(
        "git",
        "update-ref",
        f"refs/exps/{(head := copy.run('git', 'rev-parse', 'HEAD').stdout.strip())[:2]}/{head[2:]}/x",
        better.commit,
    )
    done = copy.run("tuneline", "experiments", "apply", better.name, check=False)
    assert done.returncode == 1
    assert "params.yaml has uncommitted changes" in done.stdout
    copy.run("git", "checkout", "--quiet", "params.yaml")
    shown = copy.run("tuneline", "show", "--against", better.name, COLUMNS="200").stdout
    assert "rows of both, of validation" in shown
    copy.run("tuneline", "report", "--against", better.name)
    output = copy.run("tuneline", "experiments", "apply", better.name).stdout
    assert "Next: `dvc repro` scores test" in output
    assert (copy.folder / "params.yaml").read_text() == project.run(
        "git", "show", f"{better.commit}:params.yaml"
    ).stdout
    assert not (copy.folder / "metrics/evaluate.json").exists()
    ran = re.findall(r"Running stage '(\w+)'", copy.run("dvc", "repro").stdout)
    assert ran[0] == "evaluate"
    assert {"export", "compare"} <= {*ran}
    assert not {"download", "tokenize", "train"} & {*ran}


def test_removed_experiment_is_gone(project):
    project.run("tuneline", "run", "seed=1", "--name", "gone")
    project.run("tuneline", "experiments", "remove", "gone")
    assert "gone" not in {one.name for one in saved_experiments(project.folder)}
    done = project.run("tuneline", "experiments", "remove", "bas", check=False)
    assert "the nearest is 'base'" in done.stdout
