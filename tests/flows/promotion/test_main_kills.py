"""A publication that is killed leaves nothing half published, and the next one completes it."""

import shutil

import pytest

from flows.promotion.__main__ import publish_registry
from tests.dvc_files import add_remote
from tests.faults.clones import git
from tests.faults.kills import changes, killed, some_of
from tests.flows.conftest import sh
from tuneline.repository import remote
from tuneline.repository.git import registries

MODEL = "models/onnx"


@pytest.fixture
def unpublished(toy, registry, promoted, tmp_path):
    """A version that was promoted without a push, and the origin and DVC remote that it goes to."""
    sh("git", "init", "--quiet", "--bare", "--initial-branch=main", "origin.git", cwd=tmp_path)
    sh("git", "remote", "add", "origin", str(tmp_path / "origin.git"), cwd=toy.root)
    add_remote(toy.root, tmp_path / "shelf", local=True)
    return registry


def check_whole(root, published) -> bool:
    """Check on another machine that what it finds is whole; return True if the version is there."""
    shutil.rmtree(published, ignore_errors=True)
    git(root.parent, "clone", "--quiet", "origin.git", str(published))
    tags = registries(published).get("onnx")
    if tags is None:
        return False
    git(published, "checkout", "--quiet", tags.versions[0].commit)
    shutil.copy(root / ".dvc" / "config.local", published / ".dvc")
    assert tags.in_stage("production") is not None, "the version without its stage"
    assert remote.lacks(published, tags.versions[0].commit, MODEL) is None
    return True


@some_of(7)
@pytest.mark.promise("killed-publication")
def test_publication_killed_at_any_instant_leaves_nothing_half_and_is_completed(unpublished, tmp_path, every):
    root = unpublished.repository.root
    seen = set()
    step = 1
    while killed(lambda: publish_registry(unpublished), step):
        seen.add(check_whole(root, tmp_path / "elsewhere"))
        step += every
    assert check_whole(root, tmp_path / "elsewhere")
    assert False in seen
    publish_registry(unpublished)
    assert not list(unpublished.repository.state.glob("*.unfinished"))


@some_of(5)
@pytest.mark.promise("killed-publication")
def test_push_of_data_killed_at_any_instant_leaves_no_part_that_passes_for_the_whole(
    unpublished, tmp_path, every
):
    """With the list of a folder's files, DVC takes the folder for complete."""
    root = unpublished.repository.root
    commit = unpublished.in_stage("production").commit

    def is_step(event, arguments):
        in_remote = any(str(argument).startswith(str(tmp_path / "shelf")) for argument in arguments)
        return in_remote and changes(event, arguments)

    step = 1
    while killed(lambda: remote.push(root, [commit]), step, is_step):
        for listing in (tmp_path / "shelf").rglob("*.dir"):
            cached = root / ".dvc" / "cache" / "files" / "md5" / listing.parent.name / listing.name
            assert listing.read_bytes() == cached.read_bytes()
        if remote.lacks(root, commit, MODEL) is None:
            remote.get(root, commit, MODEL, tmp_path / "model")
        step += every
    assert step > 1
    assert remote.push(root, [commit]).messages() == []
    assert remote.lacks(root, commit, MODEL) is None
