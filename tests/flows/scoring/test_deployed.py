"""The fetched model is the one that its commit names: real DVC, real damage."""

import json
import re

import pytest

from flows.scoring.deployed import content_hash, fetch_model
from tuneline.errors import DataError
from tuneline.repo import cached_file, read_lock


@pytest.fixture
def production(registry, promoted):
    return registry.in_stage("production")


def test_content_hash_is_that_of_dvc(toy, promoted):
    folder = toy.root / "models/onnx"
    assert content_hash(folder) == read_lock(toy.root).out("models/onnx")
    (folder / "more.txt").touch()
    assert content_hash(folder) != read_lock(toy.root).out("models/onnx")


def test_damaged_model_is_fetched_anew(registry, production, pipeline):
    model = fetch_model(registry, production, pipeline)
    fetched = {path: path.read_bytes() for path in model.folder.parent.rglob("*") if path.is_file()}
    assert {path.name for path in fetched} >= {"model.onnx", "tokenizer.json", "export.json", "profile.json"}
    before = model.folder.parent.stat().st_ino
    assert fetch_model(registry, production, pipeline) == model
    assert model.folder.parent.stat().st_ino == before, "a whole model is not fetched again"
    for name, content in (("model/model.onnx", bytes(1000)), ("model/export.json", b""), ("profile.json", b'{"version": ')):
        (model.folder.parent / name).write_bytes(content)
        assert fetch_model(registry, production, pipeline) == model
        assert {path: path.read_bytes() for path in fetched} == fetched, name


def test_model_that_is_damaged_in_the_cache_is_an_error_until_the_cache_is_repaired(toy, registry, production, pipeline, tmp_path):
    """The remote is in the clone's local settings, as a worker writes it: DVC alone does not find it for a commit."""
    pipeline.dvc("remote", "add", "--local", "--default", "backup", str(tmp_path / "backup"), what="A remote")
    pipeline.dvc("push", "--quiet", what="Push")
    listing = json.loads(cached_file(toy.root, read_lock(toy.root).out("models/onnx")).read_text())
    cached = cached_file(toy.root, next(one["md5"] for one in listing if one["relpath"] == "model.onnx"))
    cached.chmod(0o644)
    cached.write_bytes(bytes(cached.stat().st_size))
    cached.chmod(0o444)
    for _ in range(2):
        with pytest.raises(DataError, match=f"DVC's cache is damaged.*\n.*`rm {re.escape(str(cached))}`"):
            fetch_model(registry, production, pipeline)
    cached.unlink()
    assert content_hash(fetch_model(registry, production, pipeline).folder) == read_lock(toy.root).out("models/onnx")
