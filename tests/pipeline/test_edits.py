"""An edit runs the stages that docs/architecture.md names, and no others: ``dvc status`` is asked."""

import json
import re
import subprocess

import pytest

from tests.conftest import ROOT

ROW = re.compile(r"^\| ((?:`tuneline/\w+/`(?:, )?)+) \| ([\w, ]+) \|$", re.MULTILINE)


def documented():
    """Return the stages that an edit runs, by folder, as the page tells them."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    table = page.partition("## What an edit runs again")[2].partition("\n## ")[0]
    stages = {}
    for folders, names in ROW.findall(table):
        for folder in re.findall(r"`(tuneline/\w+)/`", folders):
            stages[folder] = set() if names == "nothing" else set(names.split(", "))
    return stages


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A clone of the last commit, without outs."""
    folder = tmp_path_factory.mktemp("edits") / "clone"
    subprocess.run(["git", "clone", "-q", ROOT, folder], check=True)
    return folder


def changed_stages(clone, folder):
    """Return the stages whose dependency on a folder is changed."""
    done = subprocess.run(["dvc", "status", "--json"], cwd=clone, capture_output=True, text=True, check=True)
    stages = set()
    for name, changes in json.loads(done.stdout).items():
        for change in changes:
            if isinstance(change, dict) and folder in change.get("changed deps", {}):
                stages.add(name)
    return stages


@pytest.mark.slow
@pytest.mark.parametrize("folder", documented())
def test_edit_of_a_comment_runs_what_the_page_says(clone, folder):
    file = next(iter(sorted((clone / folder).glob("*.py"))))
    before = file.read_text(encoding="utf-8")
    file.write_text(f"{before}# an edit\n", encoding="utf-8")
    try:
        assert changed_stages(clone, folder) == documented()[folder]
    finally:
        file.write_text(before, encoding="utf-8")


def test_page_names_every_folder():
    folders = {
        f"tuneline/{path.name}" for path in (ROOT / "tuneline").iterdir() if (path / "__init__.py").exists()
    }
    assert folders == documented().keys()
