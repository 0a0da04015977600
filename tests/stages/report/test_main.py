"""The stage ``report``: page, card and verdict after a run."""

import json
import subprocess
import sys

import pytest

from tests.params import copy_code
from tests.tuneline.finished_project import FinishedProject
from tests.tuneline.page.verdict.runs import told_of


@pytest.fixture
def project(tmp_path) -> FinishedProject:
    """A project whose other stages ran."""
    copy_code(tmp_path)
    project = FinishedProject(tmp_path).run_pipeline()
    project.commit()
    return project


def run_stage(project) -> str:
    """Run the stage in a project and return what it prints."""
    command = [sys.executable, "-m", "stages.report"]
    return subprocess.run(command, cwd=project.root, check=True, capture_output=True, text=True).stdout


def test_report_writes_page_and_card_and_prints_the_verdict(project):
    first, *verdict = run_stage(project).splitlines()
    assert first == "report: reports/index.html, reports/model_card.md"
    assert verdict[0] == str(told_of(project.root)[0])
    assert "TF-IDF" in verdict[0]
    assert (project.root / "reports/index.html").is_file()
    assert (project.root / "reports/model_card.md").is_file()


def test_out_of_the_report_is_the_same_after_a_commit(project):
    """``dvc.lock`` records this file, so facts of git must not change it; the page tells the commit."""
    out, page = project.root / "reports/report.json", project.root / "reports/index.html"
    run_stage(project)
    out_before, page_before = out.read_bytes(), page.read_text(encoding="utf-8")
    project.run_pipeline(skill=3.0, seed=2).commit("Learn more")
    run_stage(project)
    assert out.read_bytes() == out_before
    assert page.read_text(encoding="utf-8") != page_before
    assert json.loads(out_before) == {"page": "reports/index.html", "card": "reports/model_card.md"}
