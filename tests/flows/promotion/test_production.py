"""What the data of the model in production looked like reaches the next run's checks, whatever is in
production then."""

import json

import pytest

from flows.promotion.production import fetch_model, fetch_reference
from tests.flows.conftest import sh
from tuneline.paths import REFERENCE_PROFILE
from tuneline.repository.git import git

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


@pytest.fixture
def production(registry, promoted):
    return registry.in_stage("production")


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
