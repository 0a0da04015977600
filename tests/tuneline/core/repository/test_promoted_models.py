"""Models of the registry for programs: from DVC's cache, from its remote, and from another repository."""

import subprocess

import pytest

from tests.dvc_files import add_remote, init_dvc, store_folder
from tests.exported_pipeline import published_pipeline
from tuneline import TextClassifier
from tuneline.core.runtime.errors import StageError

ROW = ("the parcel", "never came")
PIPELINE = """artifacts: {onnx: {path: models/onnx, type: model}}
stages: {compare: {cmd: "true", outs: [models/onnx]}}
"""


def git(root, *arguments):
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return published_pipeline(tmp_path_factory, "classification") / "models/onnx"


@pytest.fixture(params=["cache", "remote"])
def checkout(request, tmp_path, model):
    """A repository with two versions, of which the first is in production, after a rollback."""
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "--initial-branch", "main")
    for setting in (("user.name", "a"), ("user.email", "a@b.c")):
        git(root, "config", *setting)
    init_dvc(root)
    shelf = tmp_path / "shelf"
    add_remote(root, shelf)
    (root / "dvc.yaml").write_text(PIPELINE)
    store_folder(root, "models/onnx", model, root / ".dvc/cache" if request.param == "cache" else shelf)
    for number in (1, 2):
        git(root, "add", ".")
        git(root, "commit", "--allow-empty", "--message", f"{number}")
        git(root, "tag", "--annotate", f"onnx@v0.{number}.0", "--message", "m")
        git(root, "tag", "--annotate", f"onnx#production#{number}", "--message", "m")
    git(root, "tag", "--annotate", "onnx#production#3", "--message", "m", "onnx@v0.1.0^{}")
    return root


def test_model_in_production_predicts_and_names_its_version(checkout, model):
    expected = TextClassifier.load(model, threads=1).predict_one(ROW)
    found = TextClassifier.production(checkout, threads=1).predict_one(ROW)
    assert found.version == "v0.1.0"
    assert found.scores == expected.scores


@pytest.mark.parametrize("checkout", ["remote"], indirect=True)
def test_model_of_another_repository_is_fetched_through_dvc(checkout, model):
    found = TextClassifier.production(checkout.as_uri(), threads=1).predict_one(ROW)
    assert found.version == "v0.1.0"
    assert found.scores == TextClassifier.load(model, threads=1).predict_one(ROW).scores


@pytest.mark.parametrize("checkout", ["remote"], indirect=True)
def test_lost_model_is_an_error_that_says_who_can_publish_it(checkout):
    for file in (checkout.parent / "shelf").rglob("*"):
        if file.is_file() and file.stat().st_size > 20_000:
            file.unlink()
    with pytest.raises(StageError, match=r"models/onnx of .*cannot be fetched") as error:
        TextClassifier.production(checkout)
    assert "dvc push" in error.value.hint


@pytest.mark.parametrize("checkout", ["cache"], indirect=True)
def test_damaged_model_in_the_cache_is_not_loaded(checkout):
    """The remote has no copy, so that nothing is left to load."""
    for file in (checkout / ".dvc/cache").rglob("*"):
        if file.is_file() and file.stat().st_size > 20_000:
            file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(StageError, match="is damaged in DVC's cache"):
        TextClassifier.production(checkout)


def test_empty_stage_and_unreadable_address_are_errors(tmp_path):
    with pytest.raises(StageError, match="no model is in production"):
        TextClassifier.production(tmp_path)
    with pytest.raises(StageError, match="no folder, and git cannot list its tags"):
        TextClassifier.production((tmp_path / "missing").as_uri())
