"""Where the model comes from: a folder, or the registry of a repository."""

import shutil
import subprocess

import pytest

from tests.dvc_files import init_dvc, store_folder
from tuneline.predict.promised_rule import RequiredRisk
from tuneline.runtime.errors import StageError
from tuneline.service.models import FolderSource, RegistrySource

PIPELINE = """artifacts: {onnx: {path: models/onnx, type: model}}
stages: {compare: {cmd: "true", outs: [models/onnx]}}
"""


def git(root, *arguments):
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path, pair_folder, text_folder):
    """A repository with two versions of other models, and the second one in production."""
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "--initial-branch", "main")
    git(root, "config", "user.name", "a")
    git(root, "config", "user.email", "a@b.c")
    init_dvc(root)
    (root / "dvc.yaml").write_text(PIPELINE)
    for number, folder in enumerate((pair_folder, text_folder), start=1):
        store_folder(root, "models/onnx", folder, root / ".dvc/cache")
        git(root, "add", ".")
        git(root, "commit", "--message", f"{number}")
        git(root, "tag", "--annotate", f"onnx@v0.{number}.0", "--message", "m")
    git(root, "tag", "--annotate", "onnx#production#1", "--message", "m")
    return root


def test_registry_follows_promotions_and_rollbacks(checkout):
    source = RegistrySource(str(checkout), "production", None)
    promoted = source.state()
    assert source.load().version == "v0.2.0"
    assert source.load().text_columns == ("body",)
    git(checkout, "tag", "--annotate", "onnx#production#2", "--message", "m", "onnx@v0.1.0^{}")
    assert source.state() != promoted
    assert source.load().version == "v0.1.0"
    assert source.load().text_columns == ("subject", "body")


def test_folder_or_file_of_a_precision(pair_folder):
    by_folder = FolderSource(pair_folder, "int8").load()
    by_file = FolderSource(pair_folder / "model.int8.onnx", None).load()
    assert by_folder.version == by_file.version
    assert by_folder.classifier.metadata["precision"] == "int8"
    assert FolderSource(pair_folder, "int8").state() == FolderSource(pair_folder / "model.onnx", None).state()


def test_forward_pass_has_the_threads_of_its_source(pair_folder):
    for threads in (1, 2):
        model = FolderSource(pair_folder, None, threads=threads).load()
        options = model.classifier._session.get_session_options()
        assert options.intra_op_num_threads == threads


def test_state_changes_with_the_record(pair_folder, tmp_path):
    folder = shutil.copytree(pair_folder, tmp_path / "onnx")
    source = FolderSource(folder, None)
    before = source.state()
    (folder / "export.json").write_text((folder / "export.json").read_text() + "\n")
    assert source.state() != before


def test_model_that_cannot_promise_is_refused(pair_folder):
    source = FolderSource(pair_folder, None, RequiredRisk(0.0001, {}, 0.95))
    with pytest.raises(StageError, match="answered rows without an error"):
        source.load()
