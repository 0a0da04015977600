from dataclasses import replace

import pytest

from flows.promotion.judgements import Conditions, Judgement, Judgements
from flows.runs.commits import RunResult
from tests.faults.truncation import damages

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
