"""What the data of the model in production looked like reaches the next run's checks, whatever is in
production then."""

import json
import re
import shutil

import pytest

from flows.promotion.__main__ import rollback
from flows.promotion.production import fetch_model, fetch_reference
from flows.runs.processes import ProgramError
from tests.flows.conftest import sh
from tuneline.paths import REFERENCE_PROFILE
from tuneline.repository.dvc import cached_file, folder_hash, read_lock
from tuneline.repository.git import git
from tuneline.runtime.errors import DataError

pytestmark = pytest.mark.timeout(600)


def committed(toy, branch: str, path: str) -> dict | None:
    text = git(toy.root, "show", f"{branch}:{path}")
    return json.loads(text) if text else None


def newest(toy) -> str:
    return sh(
        "git",
        "branch",
        "--list",
        "runs/*",
        "--sort=-committerdate",
        "--format=%(refname:short)",
        cwd=toy.root,
    ).split()[0]


def test_reference_is_not_written_before_the_first_promotion(toy, registry, pipeline):
    assert fetch_reference(pipeline, registry, "production") is None
    assert not (toy.root / REFERENCE_PROFILE).exists()


def test_reference_is_the_profile_of_productions_data(toy, registry, pipeline, promoted):
    assert fetch_reference(pipeline, registry, "production").name == "v0.1.0"
    assert json.loads((toy.root / REFERENCE_PROFILE).read_text()) == promoted


def test_reference_is_not_written_without_its_folder(toy, registry, pipeline, promoted):
    shutil.rmtree(toy.root / "data" / "reference")
    assert fetch_reference(pipeline, registry, "production") is None
    assert not (toy.root / "data" / "reference").exists()


def test_lost_profile_is_an_error(toy, registry, pipeline, promoted):
    """Checks that the settings ask for would silently not run."""
    shutil.rmtree(toy.root / ".dvc" / "cache")
    with pytest.raises(ProgramError, match=r"profile\.json of v0\.1\.0"):
        fetch_reference(pipeline, registry, "production")


def test_reference_command(toy, promoted, root):
    said = sh(
        "python", "-m", "flows.promotion", "reference", cwd=root, env={"TUNELINE_REPOSITORY": str(toy.root)}
    )
    assert said.startswith("data/reference/profile.json is that of onnx v0.1.0")
    assert json.loads((toy.root / REFERENCE_PROFILE).read_text()) == promoted


@pytest.mark.slow
def test_run_after_a_promotion_is_checked_against_its_data_and_not_judged_again(run, served, toy, registry):
    run(promote=True)
    assert registry.in_stage("production").name == "v0.1.0"
    assert committed(toy, newest(toy), str(REFERENCE_PROFILE)) is None, (
        "the first had nothing to be compared with"
    )

    again = run(promote=True)
    tasks = served.tasks(again.id)
    assert tasks["train"].state.name == "Restored", (
        "another reference changes figures of the data, not the data: no training"
    )
    assert "gate" not in tasks, "the model in production is not compared with itself"
    assert "which was promoted before" in sh("git", "log", "-1", "--format=%B", newest(toy), cwd=toy.root)
    assert committed(toy, newest(toy), "metrics/validate.json")["train_promoted_rows"] == 1


@pytest.mark.slow  # four runs
def test_runs_are_checked_against_the_present_production_model(run, toy, registry):
    """Promotion, a better model on other data, and the way back."""
    run(promote=True)
    run(task="strong", overrides=["data.rows=900"])
    assert registry.in_stage("production").name == "v0.2.0"
    assert committed(toy, newest(toy), "metrics/validate.json")["train_promoted_rows"] == 1.5
    first, second = (registry.version(name).commit for name in ("v0.1.0", "v0.2.0"))
    assert committed(toy, second, str(REFERENCE_PROFILE))["splits"]["train"]["rows"] == 600, (
        "the commit names what it was compared with"
    )
    assert sh("git", "status", "--porcelain", cwd=toy.root) == ""

    run(overrides=["data.rows=450"], promote=False)
    assert committed(toy, newest(toy), "metrics/validate.json")["train_promoted_rows"] == 0.5

    rollback(registry, "production", None, "The test says so.")
    run(overrides=["data.rows=450"], promote=False)
    assert committed(toy, newest(toy), "metrics/validate.json")["train_promoted_rows"] == 0.75, (
        "compared with the first again"
    )
    assert registry.in_stage("production").commit == first, (
        "what a person rolled back from does not come back by itself"
    )


@pytest.fixture
def production(registry, promoted):
    return registry.in_stage("production")


def test_content_hash_is_that_of_dvc(toy, promoted):
    folder = toy.root / "models/onnx"
    assert folder_hash(folder) == read_lock(toy.root).out("models/onnx")
    (folder / "more.txt").touch()
    assert folder_hash(folder) != read_lock(toy.root).out("models/onnx")


def test_models_that_were_not_used_for_long_are_removed(registry, production, pipeline):
    models = registry.repository.state / "models"
    for number in range(4):
        (models / f"onnx-v0.{number}.0-old").mkdir(parents=True)
    fetch_model(registry, production, pipeline)
    assert len([path for path in models.iterdir() if path.is_dir()]) == 3
    assert fetch_model(registry, production, pipeline).folder.is_dir()


@pytest.mark.promise("damaged-model")
def test_damaged_model_is_fetched_anew(registry, production, pipeline):
    model = fetch_model(registry, production, pipeline)
    fetched = {path: path.read_bytes() for path in model.folder.parent.rglob("*") if path.is_file()}
    assert {path.name for path in fetched} >= {"model.onnx", "tokenizer.json", "export.json", "profile.json"}
    before = model.folder.parent.stat().st_ino
    assert fetch_model(registry, production, pipeline) == model
    assert model.folder.parent.stat().st_ino == before, "a whole model is not fetched again"
    for name, content in (
        ("model/model.onnx", bytes(1000)),
        ("model/export.json", b""),
        ("profile.json", b'{"version": '),
    ):
        (model.folder.parent / name).write_bytes(content)
        assert fetch_model(registry, production, pipeline) == model
        assert {path: path.read_bytes() for path in fetched} == fetched, name


def test_model_that_is_damaged_in_the_cache_is_an_error_until_the_cache_is_repaired(
    toy, registry, production, pipeline, tmp_path
):
    """The remote is in the clone's local settings, as a worker writes it: DVC alone does not find it for a
    commit."""
    pipeline.dvc("remote", "add", "--local", "--default", "backup", str(tmp_path / "backup"), what="A remote")
    pipeline.dvc("push", "--quiet", what="Push")
    listing = json.loads(cached_file(toy.root, read_lock(toy.root).out("models/onnx")).read_text())
    cached = cached_file(toy.root, next(one["md5"] for one in listing if one["relpath"] == "model.onnx"))
    cached.chmod(0o644)
    cached.write_bytes(bytes(cached.stat().st_size))
    cached.chmod(0o444)
    for _ in range(2):
        with pytest.raises(DataError, match=f"rm {re.escape(str(cached))}"):
            fetch_model(registry, production, pipeline)
    cached.unlink()
    assert folder_hash(fetch_model(registry, production, pipeline).folder) == read_lock(toy.root).out(
        "models/onnx"
    )
