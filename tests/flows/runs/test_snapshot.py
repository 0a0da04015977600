import pytest

from flows.runs.snapshot import Snapshot, SnapshotError


def test_a_checkout_and_its_commit_say_the_same(toy, registry, promoted):
    here, there = Snapshot.of_checkout(toy.root), Snapshot.of_commit(toy, registry.in_stage("production").commit)
    assert here.artifact("onnx") == there.artifact("onnx") == "models/onnx"
    assert here.md5("models/onnx") == there.md5("models/onnx") is not None
    assert there.parameter("train", "model.skill") == 0.8


def test_what_was_not_made_has_no_version(toy):
    assert Snapshot.of_commit(toy, "main").md5("models/onnx") is None
    assert Snapshot.of_commit(toy, "main").parameter("train", "model.skill") is None


def test_an_artifact_that_dvc_yaml_does_not_name_is_said(toy):
    with pytest.raises(SnapshotError, match=r"has no artifact 'classifier'; promotion\.artifact in conf/flows\.yaml"):
        Snapshot.of_checkout(toy.root).artifact("classifier")
