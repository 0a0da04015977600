"""Faults between a promotion and its end: no network, a kill, a broken connection, a wrong clock, another
machine."""

import contextlib
import os
import re

import pytest
from gto import api as gto

from flows.promotion import rollback
from tests.faults.clocks import moved_clock
from tests.faults.clones import Machine, clone, git, origin
from tests.faults.concurrency import at_once
from tests.faults.kills import killed, some_of
from tests.faults.networks import git_host
from tuneline.core.repository.git import GitError
from tuneline.operations.promotion.registry import ConflictError, Registry
from tuneline.operations.runs.repository import Repository, UnreachableError

AWAY = "/nowhere/origin.git"


@pytest.fixture
def one(tmp_path) -> Machine:
    origin(tmp_path)
    return clone(tmp_path, "one")


@pytest.fixture
def two(one, tmp_path) -> Machine:
    return clone(tmp_path, "two")


def origin_of(machine: Machine) -> dict[str, str]:
    """The registry's tags in origin."""
    listed = git(machine.root, "ls-remote", "--tags", "--refs", "origin").splitlines()
    return {line.partition("refs/tags/")[2]: line.split()[0] for line in listed}


def shown_by_gto(machine: Machine) -> str:
    """The commit that `gto show` has in production."""
    return gto.show(str(machine.root), "onnx#production")[0]["commit_hexsha"]


@contextlib.contextmanager
def origin_away(machine: Machine):
    url = git(machine.root, "remote", "get-url", "origin")
    git(machine.root, "remote", "set-url", "origin", AWAY)
    yield
    git(machine.root, "remote", "set-url", "origin", url)


def hook(machine: Machine, name: str, script: str) -> None:
    """Make origin run a script when something is pushed."""
    path = machine.root.parent / "origin.git" / "hooks" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.promise("failed-push")
def test_failed_push_leaves_the_registry_as_it_was(one, monkeypatch):
    before = one.promote()
    with origin_away(one), pytest.raises(GitError, match=AWAY):
        one.registry.promote(one.commit(), "It is better.", push=True)
    assert one.registry.tags().versions == [before]
    assert one.production == before.commit
    assert one.promote().name == "v0.2.0", (
        "the next promotion is judged and published as if nothing had happened"
    )
    assert one.names == origin_of(one)


@some_of(9)
@pytest.mark.parametrize("push", [True, False], ids=["pushed", "local"])
@pytest.mark.promise("killed-promotion")
def test_promotion_killed_at_any_instant_is_undone_or_complete(one, push, every):
    before, step, outcomes = one.promote(push=push).commit, 1 - every, set()
    while True:
        commit, step = one.commit(), step + every
        ended = not killed(lambda commit=commit: one.promote(commit, push=push), step)
        assert one.production in {before, commit}
        if push:
            one.fetch()  # the next run
        names = one.names
        assert one.production == shown_by_gto(one)
        assert one.production in {before, commit}
        if push:
            assert names == origin_of(one)
        outcomes.add(one.production == commit)
        before = one.production
        if ended:
            break
    assert outcomes == {True, False}
    assert one.production == commit


@pytest.mark.promise("failed-push")
def test_connection_that_breaks_after_origin_accepted_is_a_promotion(one):
    parent = "pid=$PPID; until grep -q push /proc/$pid/cmdline; do pid=$(cut -d' ' -f4 /proc/$pid/stat); done"
    hook(one, "post-receive", f"{parent}; touch killed; kill -9 $pid")
    version = one.promote()
    assert (one.root.parent / "origin.git" / "killed").exists()
    assert one.production == version.commit
    assert one.names == origin_of(one)


@pytest.mark.promise("unreachable-origin")
def test_host_that_is_away_for_a_moment_costs_no_promotion(one, tmp_path, monkeypatch):
    """And one that stays away leaves the registry as it was."""
    messages = []
    machine = Machine(one.root, Registry(Repository(one.root, messages.append)))
    with git_host(tmp_path) as host:
        git(one.root, "remote", "set-url", "origin", host.url("origin.git"))
        monkeypatch.setattr("tuneline.operations.runs.repository.RETRY_AFTER", (0.1, 0.3, 1.0, 3.0))
        host.stop()
        host.start_later(0.3)
        version = machine.promote()
        assert machine.names == origin_of(machine)
        assert messages
        assert re.search(r"Connection (refused|reset)", messages[0])
        assert "The next attempt is in 0.1 s." in messages[0]

        host.stop()
        monkeypatch.setattr("tuneline.operations.runs.repository.RETRY_AFTER", (0.0,))
        with pytest.raises(UnreachableError, match=r"Connection (refused|reset)"):
            machine.registry.promote(machine.commit(), "It is better.", push=True)
        assert machine.production == version.commit
        host.start()
        machine.fetch()
        assert machine.production == version.commit, "origin never had it"
        assert machine.promote().name == "v0.2.0"


@pytest.mark.promise("hold")
def test_hold_reaches_other_machines_and_stops_a_promotion_that_is_in_progress(one, two):
    first = one.promote()
    two.fetch()
    one.registry.hold("We look into it.", push=True)
    with pytest.raises(ConflictError):
        two.registry.promote(two.commit(), "It is better.", push=True)
    assert "We look into it." in two.registry.tags().hold("production")
    assert two.production == one.production == first.commit
    two.registry.hold("We, too.", push=True)
    one.fetch()
    one.registry.release("It was nothing.", push=True)
    two.fetch()
    assert one.registry.tags().hold("production") is two.registry.tags().hold("production") is None
    assert two.promote().name == "v0.2.0"
    assert shown_by_gto(two) == two.production


def test_promotion_of_another_machine_in_the_meantime_is_a_conflict(one, two):
    commit = two.commit()
    theirs = one.promote()
    with pytest.raises(ConflictError):
        two.registry.promote(commit, "It was better than nothing.", push=True)
    assert two.names == one.names == origin_of(one)
    assert two.production == theirs.commit, "and the next attempt compares with it"
    assert two.promote(commit).name == "v0.2.0"


@pytest.mark.promise("two-promotions")
def test_two_machines_that_promote_at_once_agree(one, two, root):
    script = (
        "import sys; from pathlib import Path; from tuneline.operations.promotion.registry import *"
        "\nfrom tuneline.operations.runs.repository import Repository"
        "\nregistry = Registry(Repository(Path(sys.argv[1])))"
        "\ntry: print(registry.promote(sys.argv[2], 'Better.',"
        " push=True).commit)\nexcept ConflictError: print('conflict')"
    )
    env = {**os.environ, "PYTHONPATH": str(root)}
    ended = at_once(
        *([os.sys.executable, "-c", script, str(one.root), one.commit()] for one in (one, two)),
        cwd=one.root,
        env=env,
    )
    winner, loser = sorted((done.stdout.strip() for done in ended), key=lambda text: text == "conflict")
    assert loser == "conflict", [done.stderr for done in ended]
    one.fetch(), two.fetch()
    assert one.production == two.production == winner


@pytest.mark.parametrize("seconds", [-300])
def test_order_of_promotions_does_not_depend_on_clocks(one, two, seconds, monkeypatch):
    """A machine whose clock is off promotes, another rolls back, and each sees what was announced."""
    announced = []
    for machine, clock in [(one, 0), (two, seconds), (one, 0), (two, seconds)]:
        with monkeypatch.context() as patch:
            for name, value in moved_clock(clock).items():
                patch.setenv(name, value)
            announced.append(machine.promote())
        for other in (one, two):
            other.fetch()
            assert other.production == announced[-1].commit == shown_by_gto(other)
    assert rollback(one.registry, None, "It was worse.", push=True) == (
        announced[3],
        announced[2],
    )
    assert rollback(one.registry, None, "This one, too.", push=True) == (
        announced[2],
        announced[1],
    )
    two.fetch()
    assert two.production == shown_by_gto(two) == announced[1].commit
