"""A project that a user made their own: its tests pass, whatever its data, parameters, tasks, launch
configurations and stages."""

import csv
import random
import sys
from collections.abc import Callable

import pytest
from ruamel.yaml import YAML

from tests.conftest import ROOT
from tests.params import write_params
from tests.project import Project

TOPICS = {
    "economy": "shares profit bank price trade",
    "politics": "election parliament minister vote law",
    "science": "planet cell physics energy study",
    "sport": "match goal team league coach",
    "weather": "rain storm sun wind snow",
}


def write_news(project: Project) -> None:
    """Write ``news.csv``: other columns, classes and number of classes than the sample."""
    rng = random.Random(5)
    with (project.folder / "news.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "headline", "section"])
        for number in range(300):
            section = rng.choice(sorted(TOPICS))
            writer.writerow(
                [number, " ".join(rng.choices(TOPICS[section].split(), k=8)) + f" {number}", section]
            )


def init_other_files(project: Project) -> None:
    write_news(project)
    project.run("tuneline", "init", "news.csv", "--force", PYTHONPATH=str(project.folder))


def add_and_remove_tasks(project: Project) -> None:
    tasks = project.folder / "conf/task"
    for removed in ("cola.yaml", "stsb.yaml"):
        (tasks / removed).unlink(missing_ok=True)
    task = (
        "data: {source: files, text_columns: [headline], label_column: section}\nmodel: {config: {model_type:"
        " bert}}\n"
    )
    (tasks / "news.yaml").write_text(f"# @package _global_\ndefaults: [/base]\n{task}")


def rename_launch_configurations(project: Project) -> None:
    launch = project.folder / "conf/accelerate"
    for number, path in enumerate(sorted(launch.glob("*.yaml"))):
        path.rename(launch / f"mine-{number}.yaml")
    (launch / "laptop.yaml").write_text((ROOT / "tests/conf/accelerate/cpu.yaml").read_text())
    # On a processor that computes bfloat16, `tuneline init` has set auto, which is for the launch auto.
    project.set_params({"train.launch": "laptop", "train.mixed_precision": None})


def change_model_and_checks(project: Project) -> None:
    model = {
        "model_type": "distilbert",
        "dim": 64,
        "n_layers": 1,
        "n_heads": 2,
        "hidden_dim": 128,
        "max_position_embeddings": 256,
    }
    project.set_params(
        {
            "seed": 7,
            "model.config": model,
            "validate.severity": {"duplicates": "error"},
        }
    )


def add_a_stage(project: Project) -> None:
    yaml = YAML()
    pipeline = yaml.load(project.folder / "dvc.yaml")
    deploy = {
        "cmd": "python -m mine.deploy",
        "deps": ["models/onnx"],
        "params": [{"mine.yaml": ["region"]}],
        "metrics": ["mine.json"],
    }
    pipeline["stages"]["deploy"] = deploy
    yaml.dump(pipeline, project.folder / "dvc.yaml")


def change_the_flows(project: Project) -> None:
    (project.folder / "conf/flows.yaml").write_text(
        "lock_wait_seconds: 60\nstages: {default: {timeout_minutes: 5}}\n"
    )


CHANGES: list[Callable[[Project], None]] = [
    init_other_files,
    add_and_remove_tasks,
    rename_launch_configurations,
    change_model_and_checks,
    add_a_stage,
    change_the_flows,
]

TESTS_OF_USERS_FILES = [
    "tests/tuneline/core/test_settings.py",
    "tests/test_conf.py",
    "tests/test_dvc_yaml.py",
    "tests/test_project.py",
    "tests/tuneline/core/params/test_loading.py",
]


@pytest.fixture
def project(tmp_path) -> Project:
    """This checkout with the tests' parameters."""
    project = Project.adopted(tmp_path / "project")
    write_params(project.folder)
    return project


def run_tests(project: Project, *arguments: str) -> str:
    """Commit the project, run its tests in it, and return the output; an error if one fails or writes into
    the working tree."""
    project.commit("Make it mine")
    pytest_here = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-p",
        "no:cacheprovider",
        "--basetemp",
        f"{project.folder}-tests",
    ]
    output = project.run(*pytest_here, *arguments, PYTHONPATH=str(project.folder)).stdout
    assert project.status() == ""
    return output


@pytest.mark.slow
def test_adopted_project_has_valid_parameters_and_stages(project):
    for change in CHANGES:
        change(project)
    output = run_tests(project, "-n", "0", *TESTS_OF_USERS_FILES)
    assert "test_task_is_valid_and_sets_every_key[news] PASSED" in output


@pytest.mark.slow  # the default suite
@pytest.mark.timeout(3600)
def test_adopted_project_passes_the_default_suite(project):
    for change in CHANGES:
        change(project)
    workers = ["-n", "2", "--dist", "loadscope", "--no-loadscope-reorder"]
    run_tests(
        project,
        *workers,
        "tests",
        "--ignore=tests/test_adopted_project.py",
        "--ignore=tests/tuneline/operations/server",
    )
