"""Data of another commit than git names is named, and nothing of ours runs on it."""

import sys

import pytest

from tests.tuneline.core.repository.conftest import DATA, FILE, dvc, pull, sh
from tuneline.core.repository.dvc import read_lock
from tuneline.core.repository.source_versions import require_present, set_back
from tuneline.core.runtime.errors import DataError
from tuneline.page.result import warnings_of_lock


def test_file_that_dvc_has_set_back_is_named_until_git_has_it(clone):
    pull(clone)
    dvc("repro", cwd=clone)
    (error,) = set_back(clone)
    assert error.problem.startswith(f"DVC has set {FILE} back to the data of commit ")
    assert "Rows, because git brings no data" in error.problem
    assert error.hint.startswith(f"git restore {FILE} && dvc pull {FILE}. ")
    with pytest.raises(DataError, match="DVC has set"):
        require_present(clone)
    sh("git", "add", FILE, cwd=clone)  # a person means it
    assert set_back(clone) == []


def test_changes_of_the_user_are_no_other_version(clone):
    (clone / DATA / "all.csv").write_text("text,label\na,x\nmine,y\n")
    dvc("repro", cwd=clone)
    assert set_back(clone) == []


@pytest.mark.promise("data-before-pull")
def test_first_stages_refuse_a_file_that_dvc_has_set_back(clone):
    command = [sys.executable, "-m", "tuneline.core.repository.source_versions"]
    assert sh(*command, cwd=clone).stderr == ""
    pull(clone)
    dvc("repro", cwd=clone)
    done = sh(*command, cwd=clone, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"DVC has set {FILE} back")
    (warning,) = warnings_of_lock(clone, read_lock(clone), compared=False)
    assert warning.startswith("DVC has set data/source/tickets.dvc back")
