"""What the data of the model in production looked like reaches the next run's checks, whatever is in
production then."""

import json

import pytest

from tests.flows.conftest import sh
from tuneline.core.paths import REFERENCE_PROFILE
from tuneline.core.repository.git import git
from tuneline.operations.promotion.registry import fetch_reference

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


def test_reference_is_not_written_before_the_first_promotion(toy, registry):
    assert fetch_reference(toy.root, registry) is None
    assert not (toy.root / REFERENCE_PROFILE).exists()


def test_reference_is_the_profile_of_productions_data(toy, registry, promoted):
    assert fetch_reference(toy.root, registry).name == "v0.1.0"
    assert json.loads((toy.root / REFERENCE_PROFILE).read_text()) == promoted


@pytest.mark.slow
def test_run_after_a_promotion_is_checked_against_its_data_and_not_judged_again(run, served, toy, registry):
    run(promote=True)
    assert registry.production().name == "v0.1.0"
    assert committed(toy, newest(toy), str(REFERENCE_PROFILE)) is None, (
        "the first had nothing to be compared with"
    )

    again = run(promote=True)
    tasks = served.tasks(again.id, "train")
    assert tasks["train"].state.name == "Restored", (
        "another reference changes figures of the data, not the data: no training"
    )
    assert "gate" not in tasks, "the model in production is not compared with itself"
    assert "which was promoted before" in sh("git", "log", "-1", "--format=%B", newest(toy), cwd=toy.root)
    assert committed(toy, newest(toy), "metrics/validate.json")["train_promoted_rows"] == 1
