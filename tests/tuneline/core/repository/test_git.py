import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.project import GIT_IDENTITY, Project
from tests.tuneline.saved_experiments import ExperimentRepository
from tuneline.core.repository.dvc import Lock, read_lock
from tuneline.core.repository.git import (
    CLASSIFIER_PATH,
    ForeignRepositoryError,
    commit_of,
    commits,
    git,
    other_params,
    registered,
    require_own_repository,
    run_git,
    unversioned,
)
from tuneline.core.runtime.errors import StageError


def test_repository_of_another_user_is_refused_with_gits_command_to_trust_it(tmp_path, monkeypatch):
    root = tmp_path / "theirs"
    Project(tmp_path).run("git", "init", "--quiet", str(root))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own: as if it belonged to another user
    for command in (git, run_git):
        with pytest.raises(ForeignRepositoryError) as refused:
            command(root, "rev-parse", "--show-toplevel")
        assert f"git does not read {root}, because another user owns it" in refused.value.problem
    advised = re.search(r"git config \S+ --add safe\.directory \S+", refused.value.hint)[0]
    Project(tmp_path).run(*advised.split())
    assert (
        git(root, "rev-parse", "--show-toplevel")
        == run_git(root, "rev-parse", "--show-toplevel")
        == str(root)
    )


def test_commit_of_a_version_is_the_one_that_added_it_not_the_newest(project):
    first = project.git("rev-parse", "HEAD")
    (project.root / "README.md").write_text("later\n")
    project.commit("Write about it")
    commit = commit_of(project.root, read_lock(project.root).out(CLASSIFIER_PATH))
    assert (commit.sha, commit.subject) == (first, "Run the pipeline")


def registered_names(project) -> list[str]:
    version = read_lock(project.root).out(CLASSIFIER_PATH)
    return registered(project.root, commit_of(project.root, version))


def tag(project, name: str) -> None:
    project.git("tag", "--annotate", name, "--message=A tag of the registry")


def test_replaced_model_is_not_in_production_until_a_rollback(project):
    first = project.git("rev-parse", "HEAD")
    tag(project, "onnx#production#1")
    project.run_pipeline(skill=3.0, seed=2).commit("Learn more")
    tag(project, "onnx#production#2")
    assert registered_names(project) == ["onnx#production"]
    project.git("checkout", "--quiet", first)
    assert registered_names(project) == []
    tag(project, "onnx#production#3")
    assert registered_names(project) == ["onnx#production"]


@pytest.mark.parametrize("text", ["", "{ broken"])
def test_empty_or_invalid_lock_has_no_entries(text):
    lock = Lock(text)
    assert lock.out(CLASSIFIER_PATH) is None
    assert lock.params() == {}
    assert lock.code() == {}


def test_project_in_a_subfolder_or_submodule_of_another_repository_is_refused(tmp_path):
    """In one sentence, where before an experiment could not find dvc.yaml."""
    outer, inner = tmp_path / "outer", tmp_path / "inner"
    for folder in (outer, inner):
        folder.mkdir()
        subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
        subprocess.run(
            ["git", "commit", "--quiet", "--allow-empty", "--message=Start"],
            cwd=folder,
            check=True,
            env=GIT_IDENTITY,
        )
    require_own_repository(outer)
    (outer / "project").mkdir()
    with pytest.raises(StageError, match=f"subfolder of .*{outer}"):
        require_own_repository(outer / "project")
    add = ["git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "part"]
    subprocess.run(add, cwd=outer, check=True, capture_output=True)
    with pytest.raises(StageError, match=f"submodule of {outer}"):
        require_own_repository(outer / "part")
    (tmp_path / "plain").mkdir()
    require_own_repository(tmp_path / "plain")  # without git, other commands say what is missing


def test_unversioned_data_is_found(tmp_path):
    repository = ExperimentRepository(tmp_path).root
    (repository / ".gitignore").write_text(
        "/data/source/?*\n!/data/source/*.dvc\n/models/source/?*\n!/models/source/*.dvc\n"
    )
    (repository / "data/source/mine").mkdir(parents=True)
    (repository / "data/source/mine/all.csv").write_text("a\n")
    (repository / "data/source/known.csv").write_text("b\n")
    (repository / "models/source/bert").mkdir(parents=True)
    (repository / "models/source/bert/config.json").write_text("{}")
    Project(repository).run("dvc", "add", "--quiet", "data/source/known.csv")
    assert [str(path) for path in unversioned(repository)] == ["data/source/mine", "models/source/bert"]
    Project(repository).run("dvc", "add", "--quiet", "data/source/mine", "models/source/bert")
    assert unversioned(repository) == []


def test_commit_and_file_of_any_name_are_read(project):
    (project.root / "data/source").mkdir(parents=True, exist_ok=True)
    name = os.fsdecode(b"caf\xe9.csv")
    (project.root / "data/source" / name).write_text("a\n")
    assert unversioned(project.root) == [Path("data/source") / name]
    for subject in ("", "one\u2028line"):
        project.git("commit", "--quiet", "--allow-empty", "--allow-empty-message", f"--message={subject}")
        assert commits(project.root, "--max-count=1")[0].subject == subject


def test_parameters_of_a_part_of_the_stages_are_those_of_the_metrics(tmp_path):
    stages = {}
    for name, split, seed in (("evaluate", "test", 42), ("baseline", "validation", 7)):
        stages[name] = {"params": {"params.yaml": {"seed": seed, "evaluate.split": split}}}
    lock = Lock(json.dumps({"stages": stages}))
    assert lock.params()["evaluate.split"] == "test"
    assert other_params({"seed": 7, "evaluate": {"split": "validation"}}, lock) == ["seed", "evaluate.split"]
