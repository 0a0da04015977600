"""Writes ``reports/checks/``."""

import json
from collections.abc import Sequence
from pathlib import Path

from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
from jinja2 import Environment, FileSystemLoader

from stages.validate.catalog import CHECKS
from stages.validate.profile import Profile
from stages.validate.report.data_docs import OfflinePageView
from stages.validate.report.verdict import Verdict
from tuneline.files import write_json

TEMPLATES = Path(__file__).parent / "page"


def write_report(folder: Path, verdict: Verdict, results: Sequence[ExpectationSuiteValidationResult], profile: Profile) -> None:
    """Fills a folder: ``checks.json``, ``index.html``, ``profile.json``, ``passed``, and ``data_docs/`` with Great Expectations' own pages.

    Training waits for ``passed``, which is there when no error is, and says nothing else: figures may move while the data stays.
    """
    write_json(folder / "checks.json", verdict.to_json())
    (folder / "profile.json").write_text(json.dumps(profile.to_json()) + "\n", encoding="utf-8")
    (folder / "data_docs").mkdir()
    view = OfflinePageView()
    for result in results:
        (folder / "data_docs" / f"{result.suite_name}.html").write_text(view.page(result), encoding="utf-8")
    if not verdict.errors:
        (folder / "passed").write_text("The data checks passed.\n", encoding="utf-8")
    (folder / "index.html").write_text(page(verdict, [result.suite_name for result in results]), encoding="utf-8")


def page(verdict: Verdict, pages: Sequence[str]) -> str:
    """The page for people. Whatever comes from the data is escaped."""
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template("index.html.j2").render(verdict=verdict, catalog=CHECKS, pages=pages)
