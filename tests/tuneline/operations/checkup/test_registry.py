"""What is in production has a second copy, and what doctor recommends does not delete the first."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dvc_files import add_remote, init_dvc
from tuneline.core.repository.worktrees import at_commit
from tuneline.operations.checkup import FREE_DISK_HINT, check_registry

DVC = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
IDENTITY = {
    f"GIT_{role}_{key}": "a@localhost" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")
}


PROMOTED = "Promoted (nothing in production yet): every criterion is met."


def run(folder: Path, *command: str) -> str:
    env = {**os.environ, **IDENTITY, "PATH": DVC}
    return subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def template(tmp_path_factory, homes) -> Path:
    """A project whose model in production is older than the present one, and than its DVC remote."""
    root = tmp_path_factory.mktemp("template")
    run(root, "git", "init", "--quiet", "--initial-branch=main")
    init_dvc(root)
    stage = (
        "stages:\n  train:\n    cmd: mkdir -p models/onnx && cp seed models/onnx/model.onnx\n"
        "    deps: [seed]\n    outs: [models/onnx]\n"
    )
    (root / "dvc.yaml").write_text(f"{stage}artifacts:\n  onnx: {{path: models/onnx}}\n")
    for seed in ("1", "2"):
        (root / "seed").write_text(seed)
        run(root, "dvc", "repro", "--quiet")
        run(root, "git", "add", "--all")
        decision = PROMOTED if seed == "1" else "Rejected (v0.1.0 in production): it is worse."
        run(root, "git", "commit", "--quiet", f"--message=Seed {seed}\n\n{decision}\n\nPrefect-Run: {seed}")
        if seed == "1":
            run(root, "git", "tag", "--annotate", "onnx@v0.1.0", f"--message={PROMOTED}")
            run(root, "git", "tag", "--annotate", "onnx#production#1", f"--message={PROMOTED}")
    return root


@pytest.fixture
def project(template, tmp_path, monkeypatch) -> Path:
    """A copy of the template."""
    monkeypatch.setenv("PATH", DVC)
    return Path(shutil.copytree(template, tmp_path / "project", symlinks=True))


def results(root: Path) -> list[tuple[str, str]]:
    return [(result.level, result.message) for result in check_registry(root)]


@pytest.mark.promise("garbage-collection")
def test_recommended_garbage_collection_keeps_every_registered_version(project):
    (command,) = re.findall(r"dvc gc(?: --[a-z-]+)+", FREE_DISK_HINT)
    (project / "seed").write_text("3")
    run(project, "dvc", "repro", "--quiet")
    run(project, *shlex.split(command), "--force")
    run(project, "dvc", "get", ".", "models/onnx", "--rev", "onnx@v0.1.0", "--out", "fetched")
    assert (project / "fetched/model.onnx").read_text() == "1"


@pytest.mark.promise("no-second-copy")
def test_production_without_a_second_copy_is_a_warning_that_says_what_is_missing(project, tmp_path):
    ((level, message),) = results(project)
    assert level == "warning"
    assert message.startswith(
        "onnx v0.1.0, which is in production, has no second copy: the DVC remote cannot be asked (DVC has no"
    )
    assert message.endswith("; git remote origin is missing, cannot be asked, or does not have its tag")

    add_remote(project, tmp_path / "shelf")
    run(project, "git", "init", "--quiet", "--bare", str(tmp_path / "origin.git"))
    run(project, "git", "remote", "add", "origin", str(tmp_path / "origin.git"))
    assert results(project)[0][1].endswith(
        "the DVC remote does not have its files; git remote origin is missing, cannot be asked, or does not"
        " have its tag"
    )

    with at_commit(project, "onnx@v0.1.0") as tree:
        run(tree, "dvc", "push", "--quiet")
    run(project, "git", "push", "--quiet", "origin", "--tags")
    assert results(project) == [
        ("ok", "onnx v0.1.0, which is in production, is in the DVC remote and in origin")
    ]


def test_artifact_of_the_user_is_not_taken_for_a_model(project):
    expected = results(project)
    for name in ("mine@v1.0.0", "mine#staging#2"):
        run(project, "git", "tag", "--annotate", name, "--message=Not a model")
    assert results(project) == expected


def test_production_that_is_nowhere_is_an_error(project, tmp_path):
    add_remote(project, tmp_path / "shelf")
    shutil.rmtree(project / ".dvc" / "cache" / "files")
    ((level, message),) = results(project)
    assert level == "error"
    assert message.endswith(
        "cannot be fetched: DVC's cache does not have its files, and the DVC remote does not have its files"
    )
