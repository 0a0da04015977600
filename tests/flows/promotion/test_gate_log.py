from dataclasses import replace

import pytest

from flows.promotion.registry import ConflictError, Registry
from tests.flows.conftest import sh
from tests.flows.promotion.test_registry import promote
from tests.tuneline.gating.test_error_budget import budget_of, entry


def judge(registry: Registry, time: float) -> None:
    registry.gate_log.append(entry(budget_of([]), time))


def times(registry: Registry) -> list[float]:
    return [decision.time for decision in registry.gate_log.entries()]


@pytest.fixture
def machines(registry, tmp_path) -> tuple[Registry, Registry]:
    """Two clones of one origin."""
    root = registry.repository.root
    sh("git", "clone", "--quiet", "--bare", str(root), str(tmp_path / "origin.git"), cwd=root)
    sh("git", "remote", "add", "origin", str(tmp_path / "origin.git"), cwd=root)
    sh("git", "clone", "--quiet", str(tmp_path / "origin.git"), str(tmp_path / "other"), cwd=root)
    other = replace(registry, repository=replace(registry.repository, root=tmp_path / "other"))
    return registry, other


def test_decisions_are_in_their_order(registry):
    for time in (1.0, 2.0, 3.0):
        judge(registry, time)
    assert times(registry) == [1.0, 2.0, 3.0]


def test_decisions_reach_other_machines_with_the_next_push(machines):
    here, there = machines
    judge(here, 1.0)
    here.publish([])
    there.fetch()
    judge(there, 2.0)
    there.publish([])
    here.fetch()
    assert times(here) == times(there) == [1.0, 2.0]


def test_decisions_of_two_machines_are_joined_and_count_on_both(machines):
    here, there = machines
    judge(here, 1.0)
    here.publish([])
    judge(there, 2.0)
    with pytest.raises(ConflictError):  # origin has a decision that this machine did not count
        there.publish([])
    assert times(there) == [1.0, 2.0]
    there.publish([])
    here.fetch()
    assert times(here) == [1.0, 2.0]


def test_registry_of_an_earlier_version_is_read(machines):
    """Tags without a history: what was promoted stays, and nothing is used up."""
    here, there = machines
    version = promote(here)
    here.publish(["refs/heads/main"])
    there.fetch()
    assert there.in_stage("production") == version
    assert there.gate_log.entries() == []
