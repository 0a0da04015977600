import json
import os
from dataclasses import replace

import numpy as np
import pytest

from flows.promotion.decide import (
    Conditions,
    Judgement,
    Judgements,
    UnpushedResult,
    forget_unpushed,
    unpushed_results,
)
from flows.promotion.gate import (
    PairedPredictions,
    PromotionCriterion,
    PromotionDecision,
    as_markdown,
    as_payload,
    decide_promotion,
)
from flows.runs.checkout import RunSpec
from flows.runs.commits import Run, RunResult
from flows.runs.repository import Repository
from flows.settings import PromotionPolicy
from tests.faults.clones import Machine, clone, git, origin
from tests.faults.truncation import damages
from tests.flows.conftest import sh
from tuneline.project.registry import Version
from tuneline.tasks import Classification


@pytest.fixture
def outcome() -> PromotionDecision:
    labels = np.arange(400) % 4
    rows = PairedPredictions(labels, labels, labels * 0, Classification(("a", "b", "c", "d")))
    return decide_promotion(
        rows, [PromotionCriterion("latency of one row in ms", "999", "<= 250", met=False)], PromotionPolicy()
    )


def test_markdown_table_has_a_row_for_each_criterion(outcome):
    compared = replace(outcome, production=Version("v0.1.0", "a" * 40))
    text = as_markdown(compared, None, "b" * 40, "https://host/commit")
    assert "In production before: v0.1.0" in text
    assert text.startswith("# Not promoted")
    assert text.count("\n| ✅") == sum(one.met for one in outcome.criteria)
    assert "| ❌ | latency of one row in ms | 999 | <= 250 |" in text
    assert "[`bbbbbbbbbbbb`](https://host/commit)" in text


def test_commit_message_lists_every_criterion(outcome):
    text = str(outcome)
    assert text.startswith("Rejected (nothing in production yet): latency of one row in ms: 999")
    assert all(one.name in text for one in outcome.criteria)


def test_event_payload_is_json(outcome):
    payload = json.loads(json.dumps(as_payload(outcome, None, "b" * 40), allow_nan=False))
    assert payload["difference"] == pytest.approx(0.75)
    assert payload["version"] is None


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("https://github.com/someone/project.git", "https://github.com/someone/project/commit/abc"),
        ("git@gitlab.com:group/project.git", "https://gitlab.com/group/project/commit/abc"),
        ("https://user:secret@github.com/someone/project", "https://github.com/someone/project/commit/abc"),
        ("/srv/git/project.git", None),
    ],
)
def test_commit_page_has_no_credentials(toy, url, page):
    sh("git", "remote", "add", "origin", url, cwd=toy.root)
    assert toy.commit_page("abc") == page


JUDGED = Conditions("c" * 40, "p" * 64, pushed=True)
JUDGEMENT = Judgement("run", RunResult("a" * 40, "runs/one"), JUDGED)


@pytest.mark.parametrize(
    ("later", "covered"),
    [
        (JUDGED, True),
        (Conditions(None, None, pushed=True), True),
        (Conditions("c" * 40, "p" * 64, pushed=False), True),
        (Conditions("d" * 40, "p" * 64, pushed=True), False),
        (Conditions("c" * 40, "q" * 64, pushed=True), False),
        (replace(JUDGED, hold="since today"), True),
    ],
    ids=[
        "the same",
        "no promotion requested",
        "no push requested",
        "other production",
        "other policy",
        "a hold since",
    ],
)
def test_decision_answers_for_runs_under_the_same_conditions(later, covered):
    assert JUDGED.covers(later) == covered


def test_result_that_was_not_pushed_does_not_answer_for_one_that_is():
    assert not Conditions("c" * 40, "p" * 64, pushed=False).covers(JUDGED)


def test_result_that_was_not_judged_does_not_answer_for_one_that_is():
    assert not Conditions(None, None, pushed=True).covers(JUDGED)


def test_judgement_is_found_by_its_tree(toy):
    judgements = Judgements(toy)
    assert judgements.find("tree") is None
    judgements.add("tree", JUDGEMENT)
    assert (judgements.find("tree"), judgements.find("other")) == (JUDGEMENT, None)


def test_commits_that_later_runs_came_to_are_known(toy):
    judgements = Judgements(toy)
    judgements.add("tree", JUDGEMENT)
    judgements.add("seen", replace(JUDGEMENT, result=RunResult("b" * 40, "runs/two"), seen=100.0))
    assert judgements.commits_since(100.0) == {"b" * 40}
    assert judgements.commits_since(101.0) == set()


def test_damaged_file_has_a_result_judged_once_more(toy):
    Judgements(toy).add("tree", JUDGEMENT)
    for damage in damages(toy.state / "judgements.json"):
        assert Judgements(toy).find("tree") is None, damage
    Judgements(toy).add("tree", JUDGEMENT)
    assert Judgements(toy).find("tree") == JUDGEMENT


@pytest.fixture
def one(tmp_path) -> Machine:
    origin(tmp_path)
    machine = clone(tmp_path, "one")
    machine.registry.repository.state.mkdir(parents=True)
    return machine


def note(machine: Machine, name: str, tree: str = "tree") -> UnpushedResult:
    run, spec = Run(f"id of {name}", name), RunSpec("main", git(machine.root, "rev-parse", "main"), ("a=1",))
    result = UnpushedResult(run, name, spec, tree, True)
    result.record(machine.registry.repository)
    return result


def test_records_are_read_back_the_oldest_first(one):
    repository = one.registry.repository
    first, second = note(one, "first"), note(one, "second")
    os.utime(repository.state / "first.unpushed", (0, 0))
    assert unpushed_results(repository) == [first, second]
    assert first.age_in_days(repository, 86400.0) == 1
    forget_unpushed(repository, "first")
    forget_unpushed(repository, "first")
    assert unpushed_results(repository) == [second]


def test_damaged_record_is_reported_once_and_hides_no_other(one):
    messages = []
    repository = Repository(one.root, messages.append)
    other = note(one, "other")
    note(one, "run")
    for way in damages(repository.state / "run.unpushed"):
        assert unpushed_results(repository) == [other], way
        assert "is damaged" in messages.pop()
        assert unpushed_results(repository) == [other]
        assert messages == []
        note(one, "run")


def test_result_is_that_of_its_branch_or_the_commit_that_was_run(one):
    repository = one.registry.repository
    assert note(one, "removed").committed(repository) is None, "a person removed its branch"
    same = note(one, "same", git(one.root, "rev-parse", "main^{tree}"))
    assert same.committed(repository).commit == same.spec.commit
    git(one.root, "commit", "--quiet", "--allow-empty", "--message=Run\n\nPrefect-Run: idofrun")
    git(one.root, "branch", "runs/one")
    spec = RunSpec("main", git(one.root, "rev-parse", "main^"))
    found = UnpushedResult(Run("idofrun", "run"), "run", spec, "tree", True).committed(repository)
    assert (found.branch, found.commit) == ("runs/one", git(one.root, "rev-parse", "runs/one"))
