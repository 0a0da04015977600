"""A lost machine comes back from a bare origin and a DVC remote, by the commands of docs/restore.md."""

import shutil

import pytest

from tests.dvc_files import add_remote
from tests.flows.conftest import sh
from tuneline.core.repository.promoted_models import ModelRepository
from tuneline.operations.checkup import check_registry
from tuneline.operations.promotion.registry import Registry, fetch_profile
from tuneline.operations.runs.repository import Repository

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def lost(toy, registry, promoted, tmp_path):
    """A project of which nothing is left but a bare origin and the folder of a DVC remote."""
    sh("git", "init", "--quiet", "--bare", "--initial-branch=main", "origin.git", cwd=tmp_path)
    sh("git", "remote", "add", "origin", str(tmp_path / "origin.git"), cwd=toy.root)
    add_remote(toy.root, tmp_path / "shelf")
    sh("git", "commit", "--quiet", "--all", "--message=A remote", cwd=toy.root)
    sh("git", "push", "--quiet", "origin", "main", cwd=toy.root)
    sh("dvc", "push", "--quiet", "--all-tags", cwd=toy.root)
    sh("git", "push", "--quiet", "origin", "--tags", cwd=toy.root)
    model = (toy.root / "models/onnx/model.onnx").read_bytes()
    shutil.rmtree(toy.root)
    return model


@pytest.mark.promise("restored-machine")
def test_lost_machine_is_restored_from_origin_and_dvc_remote(lost, tmp_path, monkeypatch):
    sh("git", "clone", "--quiet", "origin.git", "restored", cwd=tmp_path)
    restored = tmp_path / "restored"

    # what is in production, and that it is whole
    assert "v0.1.0" in sh("gto", "show", "onnx#production", cwd=restored)
    monkeypatch.chdir(restored)
    results = [(result.level, result.message) for result in check_registry(restored)]
    assert ("ok", "onnx v0.1.0, which is in production, is in the DVC remote and in origin") in results

    # the data and results of main: nothing is to be computed
    sh("dvc", "pull", "--quiet", "--allow-missing", cwd=restored)
    assert sh("dvc", "status", cwd=restored).strip() == "Data and pipelines are up to date."

    # the model, as flow score fetches it
    registry = Registry(Repository(restored))
    shutil.rmtree(restored / ".dvc" / "cache")
    version = registry.production()
    with ModelRepository(str(restored)).files(version) as model:
        assert (model / "model.onnx").read_bytes() == lost
    assert fetch_profile(restored, version) is not None
