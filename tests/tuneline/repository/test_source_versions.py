"""Data of another commit than git names is named, and nothing of ours runs on it."""

import sys

import pytest

from tests.tuneline.repository.conftest import DATA, FILE, dvc, pull, sh
from tuneline.cli.show import warnings_of_lock
from tuneline.cli.sweep import command as sweep
from tuneline.repository.dvc import read_lock
from tuneline.repository.source_versions import other_versions, require_present, set_back
from tuneline.runtime.errors import DataError


@pytest.mark.promise("data-before-pull")
def test_data_before_a_pull_is_named_with_the_commit_and_what_to_do(clone):
    assert other_versions(clone) == []
    pull(clone)
    (other,) = other_versions(clone)
    assert not other.set_back
    assert other.commit.subject == "Rows"
    error = other.error()
    assert (
        error.problem
        == f"{DATA} is that of commit {other.commit}, because git brings {FILE} and not its data."
    )
    assert (
        error.hint
        == f"dvc pull {FILE}. Only if you mean the data that is here: dvc add {DATA} && git add {FILE}"
    )
    dvc("fetch", FILE, cwd=clone)
    assert other_versions(clone)[0].error().hint.startswith(f"dvc checkout {FILE}. ")
    dvc("checkout", FILE, cwd=clone)
    assert other_versions(clone) == []


def test_file_that_dvc_has_set_back_is_named_until_git_has_it(clone):
    pull(clone)
    dvc("repro", cwd=clone)
    (other,) = set_back(clone)
    assert other_versions(clone) == [other]
    assert (
        other.error().problem
        == f"DVC has set {FILE} back to the data of commit {other.commit}, because git brings no data."
    )
    assert other.error().hint.startswith(f"git restore {FILE} && dvc pull {FILE}. ")
    with pytest.raises(DataError, match="DVC has set"):
        require_present(clone)
    sh("git", "add", FILE, cwd=clone)  # a person means it
    assert set_back(clone) == other_versions(clone) == []


def test_changes_of_the_user_are_no_other_version(clone):
    (clone / DATA / "all.csv").write_text("text,label\na,x\nmine,y\n")
    assert other_versions(clone) == []
    dvc("repro", cwd=clone)
    assert other_versions(clone) == []


@pytest.mark.promise("data-before-pull")
def test_sweep_and_the_first_stages_refuse_a_file_that_dvc_has_set_back(clone, monkeypatch):
    command = [sys.executable, "-m", "tuneline.repository.source_versions", "--within-repro"]
    assert sh(*command, cwd=clone).stderr == ""
    pull(clone)
    dvc("repro", cwd=clone)
    done = sh(*command, cwd=clone, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 2)
    assert done.stderr.startswith(f"DVC has set {FILE} back")
    monkeypatch.chdir(clone)
    with pytest.raises(DataError, match="DVC has set"):
        sweep(clone / "conf/sweep/first.yaml")
    (warning,) = warnings_of_lock(clone, read_lock(clone), compared=False)
    assert warning.startswith("DVC has set data/source/tickets.dvc back")
