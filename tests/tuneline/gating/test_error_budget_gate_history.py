import pytest

from tests.flows.conftest import sh
from tests.tuneline.gating.test_error_budget import budget_of, entry
from tuneline.gating.error_budget import as_message, history_ref, parse_messages, read_gate_history


@pytest.fixture
def repository(tmp_path):
    """A repository of git without a commit."""
    sh("git", "init", "--quiet", cwd=tmp_path)
    return tmp_path


def test_registry_without_a_history_has_no_decisions(repository):
    assert read_gate_history(repository, "onnx") == []


def test_entry_survives_the_message_of_its_commit():
    decision = entry(budget_of([]), 1.5)
    message = as_message(decision)
    assert message.startswith("Rejected: candidate 1 on split test")
    assert parse_messages([message, "not of the gate", ""]) == [decision]


def test_unknown_keys_of_a_later_version_are_kept(repository):
    decision = entry(budget_of([]), 1.5, of_a_later_version=1)
    tree = sh("git", "mktree", cwd=repository, input="").strip()
    commit = sh("git", "commit-tree", tree, "-m", as_message(decision), cwd=repository).strip()
    sh("git", "update-ref", history_ref("onnx"), commit, cwd=repository)
    assert read_gate_history(repository, "onnx") == [decision]
