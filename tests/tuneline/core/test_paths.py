"""All trees of a repository have one folder for checkpoints."""

from pathlib import Path

import pytest

from tuneline.core.paths import of_repository


@pytest.mark.parametrize("tree", ["flows/nightly-1/.dvc/tmp/exps/tmp1a2b"])
def test_trees_of_a_repository_share_its_checkpoints(tmp_path, monkeypatch, tree):
    folder = tmp_path / ".dvc/tmp" / tree
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    assert of_repository(Path("checkpoints")) == tmp_path / "checkpoints"


def test_path_in_the_repository_itself_is_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert of_repository(Path("checkpoints")) == Path("checkpoints")
