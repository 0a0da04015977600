"""People are told who changed production, and why, unless a run did."""

import sys
from dataclasses import asdict

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.promotion.__main__ import main
from flows.promotion.changes import CHANGED, ReportedTags, changes, remember_if_first, tell_of_changes
from tests.faults.clones import Machine, clone, git, origin
from tests.flows.prefect_server import events, until
from tuneline.repository.registry import Version

pytestmark = pytest.mark.usefixtures("served")
DECISION = "Promoted (nothing in production yet): every criterion is met."


@pytest.fixture
def one(tmp_path) -> Machine:
    """A clone with two versions, the second in production, of which people know."""
    origin(tmp_path)
    machine = clone(tmp_path, "one")
    machine.promote()
    machine.promote()
    remember_if_first(machine.registry, "production")
    return machine


def run_promotes(machine: Machine) -> Version:
    """A run commits its result with the decision, and promotes it."""
    tree = git(machine.root, "rev-parse", "HEAD^{tree}")
    commit = git(
        machine.root, "commit-tree", tree, "-p", "HEAD", "-m", f"Run night\n\n{DECISION}\n\nPrefect-Run: 1"
    )
    with machine.registry.locked(wait=10):
        return machine.registry.promote(commit, "production", DECISION)


def told(machine: Machine) -> list[str]:
    return tell_of_changes(machine.registry, "production")


def test_history_and_promotions_of_runs_are_no_news(one):
    assert told(one) == []
    run_promotes(one)
    assert told(one) == []


@pytest.mark.promise("change-by-hand")
def test_promotion_by_hand_is_told_once_with_who_and_why(one, served):
    one.promote()
    message = "onnx: v0.3.0 is in production, in place of v0.2.0. By one <one@localhost>: It is better."
    before = ReportedTags.read(one.root / ".dvc/tmp/flows/production.json")
    assert told(one) == [message]
    assert told(one) == []
    ((identity, change),) = changes(one.registry, "production", before).items()
    assert asdict(change) == {
        "message": message,
        "version": "v0.3.0",
        "before": "v0.2.0",
        "who": "one <one@localhost>",
        "why": "It is better.",
    }
    found = until(
        lambda: [event for event in events(served, CHANGED) if event["id"] == str(identity)], 30, "the event"
    )
    assert [event["payload"] for event in found] == [{"stage": "production", **asdict(change)}]


def test_promotion_of_a_run_that_changed_nothing_is_no_news(one):
    """Such a run makes no commit, and promotes the one that it began with."""
    with one.registry.locked(wait=10):
        one.registry.promote(one.commit(), "production", DECISION)
    assert told(one) == []


def test_decision_of_a_run_on_the_tag_of_a_rejected_result_is_told(one):
    tree = git(one.root, "rev-parse", "HEAD^{tree}")
    commit = git(
        one.root,
        "commit-tree",
        tree,
        "-p",
        "HEAD",
        "-m",
        "Run night\n\nRejected (v0.1.0 in production): worse.\n\nPrefect-Run: 1",
    )
    with one.registry.locked(wait=10):
        one.registry.promote(commit, "production", DECISION)
    assert told(one) == [
        f"onnx: v0.3.0 is in production, in place of v0.2.0. By one <one@localhost>: {DECISION}"
    ]


@pytest.mark.promise("change-by-hand")
def test_rollback_with_a_hold_and_the_release_are_one_event_each(one):
    first = one.registry.version("v0.1.0")
    with one.registry.locked(wait=10):
        one.registry.promote(first.commit, "production", "It was worse.", hold=True)
    assert told(one) == [
        "onnx: v0.1.0 is in production again, in place of v0.2.0; promotions are on hold. By one"
        " <one@localhost>: It was worse."
    ]
    with one.registry.locked(wait=10):
        one.registry.release("production", "Fixed.", push=False)
    assert told(one) == ["onnx: promotions are possible again. By one <one@localhost>: Fixed."]
    with one.registry.locked(wait=10):
        one.registry.hold("production", "A freeze.", push=False)
    assert told(one) == ["onnx: promotions are on hold. By one <one@localhost>: A freeze."]


def test_removal_of_tags_is_told_with_what_is_in_production_now(one):
    bad = one.production
    git(one.root, "tag", "--delete", "onnx@v0.2.0", "onnx#production#2")
    assert told(one) == [f"onnx: tags were removed; v0.1.0 is in production now, in place of {bad[:12]}."]


def test_two_machines_give_an_event_the_same_identity(one, tmp_path):
    before = ReportedTags.read(one.root / ".dvc/tmp/flows/production.json")
    two = clone(tmp_path, "two")
    one.promote()
    two.fetch()
    here, there = (changes(machine.registry, "production", before) for machine in (one, two))
    assert here == there
    assert len(here) == 1


def test_rollback_command_sends_the_event_to_the_server_that_is_set(one, served, monkeypatch, capsys):
    monkeypatch.setenv("TUNELINE_REPOSITORY", str(one.root))
    monkeypatch.setattr(
        sys, "argv", ["promotion", "rollback", "--reason", f"Slow, in {one.root}.", "--no-push"]
    )
    main()
    assert "PREFECT_API_URL" not in capsys.readouterr().err
    sent = until(
        lambda: [
            found for found in events(served, CHANGED) if str(one.root) in (found["payload"]["why"] or "")
        ],
        30,
        "the event",
    )
    assert sent[0]["payload"]["version"] == "v0.1.0"
    assert sent[0]["payload"]["who"] == "one <one@localhost>"


def test_without_a_server_the_command_says_who_sends_the_event(one, monkeypatch, capsys):
    monkeypatch.setenv("TUNELINE_REPOSITORY", str(one.root))
    monkeypatch.setattr(sys, "argv", ["promotion", "hold", "--reason", "A freeze."])
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        main()
    assert "Flow watch sends the event within the hour." in capsys.readouterr().err
