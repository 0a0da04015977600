import os

import pytest

from flows.promotion.unpushed import UnpushedResult, forget_unpushed, unpushed_results
from flows.runs.checkout import RunSpec
from flows.runs.commits import Run
from flows.runs.repository import Repository
from tests.faults.clones import Machine, clone, git, origin
from tests.faults.truncation import damages


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
