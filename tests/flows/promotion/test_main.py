"""What was promoted without a push reaches another machine: the registry, and the models."""

import shutil
import sys

import pytest

from flows.promotion.__main__ import main
from flows.promotion.registry import Registry
from flows.runs.repository import Repository
from tests.dvc_files import add_remote
from tests.flows.conftest import sh
from tuneline.repository.git import lock_at

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def publication(toy, capsys, monkeypatch):
    """Runs the command, and returns what it prints."""
    monkeypatch.setattr(sys, "argv", ["promotion", "publish"])

    def publication() -> str:
        main()
        return capsys.readouterr().out

    return publication


def test_publication_brings_versions_and_their_data_to_other_machines(
    toy, registry, promoted, publication, tmp_path
):
    """The version is older than both remotes."""
    sh("git", "clone", "--quiet", "--bare", str(toy.root), "origin.git", cwd=tmp_path)
    sh(
        "git",
        "-C",
        "origin.git",
        "tag",
        "--delete",
        *(tag.name for tag in registry.tags().tags),
        cwd=tmp_path,
    )
    sh("git", "remote", "add", "origin", str(tmp_path / "origin.git"), cwd=toy.root)
    add_remote(toy.root, tmp_path / "shelf")
    assert publication() == "origin has every version and stage: v0.1.0.\n"
    assert publication() == "origin has every version and stage: v0.1.0.\n"
    sh("git", "clone", "--quiet", "origin.git", "elsewhere", cwd=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    assert Registry(Repository(elsewhere), "onnx").in_stage("production") == registry.in_stage("production")
    model = lock_at(elsewhere, "onnx@v0.1.0").out("models/onnx")
    assert (tmp_path / "shelf" / "files" / "md5" / model[:2] / model[2:]).exists()


@pytest.mark.usefixtures("promoted")
@pytest.mark.promise("lost-version")
def test_publication_of_lost_data_names_it_and_fails(toy, registry, publication, capsys, tmp_path):
    sh("git", "clone", "--quiet", "--bare", str(toy.root), "origin.git", cwd=tmp_path)
    sh("git", "remote", "add", "origin", str(tmp_path / "origin.git"), cwd=toy.root)
    add_remote(toy.root, tmp_path / "shelf")
    shutil.rmtree(toy.root / ".dvc" / "cache" / "files")
    with pytest.raises(SystemExit, match="not the files"):
        publication()
    said = capsys.readouterr().err
    assert "ERROR: of v0.1.0, neither the cache nor the DVC remote has" in said
