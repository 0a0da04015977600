import os

import pytest

from flows.promotion.unpushed import Unpushed, age_in_days, committed, forget, record, recorded
from flows.runs.checkout import Checkout
from flows.runs.repository import Repository
from flows.runs.results import Run
from flows.runs.spec import RunSpec
from tests.faults.clones import Machine, clone, git, origin
from tests.faults.truncation import damages


@pytest.fixture
def one(tmp_path) -> Machine:
    origin(tmp_path)
    machine = clone(tmp_path, "one")
    machine.registry.repository.state.mkdir(parents=True)
    return machine


def note(machine: Machine, name: str, tree: str = "tree") -> Unpushed:
    run, spec = Run(f"id of {name}", name), RunSpec("main", git(machine.root, "rev-parse", "main"), ("a=1",))
    record(machine.registry.repository, Checkout(machine.root, name, spec, 0), run, tree, promote=True)
    return Unpushed(run, name, spec, tree, True)


def test_records_are_read_back_the_oldest_first(one):
    repository = one.registry.repository
    first, second = note(one, "first"), note(one, "second")
    os.utime(repository.state / "first.unpushed", (0, 0))
    assert recorded(repository) == [first, second]
    assert age_in_days(repository, first, 86400.0) == 1
    forget(repository, "first")
    forget(repository, "first")
    assert recorded(repository) == [second]


def test_damaged_record_is_reported_once_and_hides_no_other(one):
    messages = []
    repository = Repository(one.root, messages.append)
    other = note(one, "other")
    note(one, "run")
    for way in damages(repository.state / "run.unpushed"):
        assert recorded(repository) == [other], way
        assert "is damaged" in messages.pop()
        assert recorded(repository) == [other]
        assert messages == []
        note(one, "run")


def test_result_is_that_of_its_branch_or_the_commit_that_was_run(one):
    repository = one.registry.repository
    assert committed(repository, note(one, "removed")) is None, "a person removed its branch"
    same = note(one, "same", git(one.root, "rev-parse", "main^{tree}"))
    assert committed(repository, same).commit == same.spec.commit
    git(one.root, "commit", "--quiet", "--allow-empty", "--message=Run\n\nPrefect-Run: idofrun")
    git(one.root, "branch", "runs/one")
    spec = RunSpec("main", git(one.root, "rev-parse", "main^"))
    found = committed(repository, Unpushed(Run("idofrun", "run"), "run", spec, "tree", True))
    assert (found.branch, found.commit) == ("runs/one", git(one.root, "rev-parse", "runs/one"))
