"""``tuneline show VERSION``, for the version that an answer names."""

import shutil
import subprocess
import sys

import pytest

from tests.dvc_files import init_dvc, store_folder
from tests.exported_pipeline import published_pipeline
from tuneline import TextClassifier

PIPELINE = """artifacts: {onnx: {path: models/onnx, type: model}}
stages: {compare: {cmd: "true", outs: [models/onnx]}}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A checkout with a registered model, whose files are in DVC's cache alone."""
    root = tmp_path_factory.mktemp("project")

    def git(*arguments):
        subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)

    git("init", "--initial-branch", "main")
    git("config", "user.name", "a")
    git("config", "user.email", "a@b.c")
    init_dvc(root)
    (root / "dvc.yaml").write_text(PIPELINE)
    model = published_pipeline(tmp_path_factory, "classification") / "models/onnx"
    store_folder(root, "models/onnx", model, root / ".dvc/cache")
    git("add", ".")
    git("commit", "--message", "m")
    git("tag", "--annotate", "onnx@v0.3.0", "--message", "m")
    git("tag", "--annotate", "onnx#production#1", "--message", "m")
    return root


def show(project, name):
    command = [sys.executable, "-m", "tuneline.cli", "show", name]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["v0.3.0", "production"])
def test_version_or_stage_of_the_registry_is_explained(project, name):
    done = show(project, name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("v0.3.0, commit ")
    assert "parameters" in done.stdout


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_version_of_an_answer_is_explained(project, tmp_path_factory, precision):
    folder = published_pipeline(tmp_path_factory, "classification") / "models/onnx"
    version = TextClassifier.load(folder, precision).predict_one(("a", "b")).version
    shutil.copytree(folder, project / "models/onnx", dirs_exist_ok=True)
    assert show(project, version).stdout.startswith(f"the model in models/onnx, {precision}")
