"""Writes ``reports/checks/``, including the pages of Great Expectations (Data Docs).

Great Expectations' own templates load styles and scripts from the network, number elements at random and print the time. So its
library renders the content of a page only, and templates of this package replace the frame: static, offline, and the same bytes for the
same data.
"""

import copy
from collections.abc import Collection
from pathlib import Path

from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
from great_expectations.render.view.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, FileSystemLoader

from stages.validate.page import DataOverview, passed_checks
from stages.validate.results import CheckResults
from tuneline.page import environment, style
from tuneline.paths import SPLITS

TEMPLATES = Path(__file__).parent / "templates"


def write_report(folder: Path, results: CheckResults) -> None:
    """Write ``checks.json``, ``index.html``, ``profile.json``, ``words.json``, ``passed``, and Great Expectations' ``data_docs/``.

    Training depends on ``passed``, which is written if there is no error. Its content never changes, so that changed measurements on
    unchanged data do not cause a new training.
    """
    results.record().write(folder / "checks.json")
    results.profile.write(folder / "profile.json")
    if results.words:
        results.words.write(folder / "words.json")
    (folder / "data_docs").mkdir()
    view = OfflinePageView()
    for suite in results.suites:
        (folder / "data_docs" / f"{suite.suite_name}.html").write_text(view.page(suite), encoding="utf-8")
    if not results.errors:
        (folder / "passed").write_text("The data checks passed.\n", encoding="utf-8")
    row_files = {path.stem for path in (folder / "rows").glob("*.parquet")}
    (folder / "index.html").write_text(index_page(results, row_files), encoding="utf-8")


def index_page(results: CheckResults, row_files: Collection[str] = ()) -> str:
    """Render the page for people. Everything that comes from the data is escaped.

    Args:
        results: Results of all checks.
        row_files: Checks with a file of all their violating rows beside the page, ``rows/CHECK.parquet``.
    """
    noteworthy, passed = passed_checks(results)
    return (
        environment(TEMPLATES)
        .get_template("index.html.j2")
        .render(
            checks=results,
            data=DataOverview.of(results.profile),
            splits=SPLITS,
            noteworthy=noteworthy,
            passed=passed,
            row_files=row_files,
        )
    )


class OfflinePageView(DefaultJinjaPageView):
    """A page of Great Expectations that needs no network, with elements numbered in order."""

    def __init__(self) -> None:
        super().__init__()
        self._elements = 0
        default = [self.env.loader] if self.env.loader else []
        self.env.loader = ChoiceLoader([FileSystemLoader(TEMPLATES), *default])
        self.env.filters["generate_html_element_uuid"] = self._number
        self.env.globals["style"] = style()

    def page(self, suite: ExpectationSuiteValidationResult) -> str:
        """Render the result of one suite without its run id, times and batch id."""
        self._elements = 0
        plain = copy.deepcopy(suite)
        plain.meta = {}
        rendered: str = self.render(ValidationResultsPageRenderer().render(plain))  # type: ignore[no-untyped-call]
        return rendered

    def _number(self, prefix: str | None = None) -> str:
        self._elements += 1
        return f"{prefix or ''}{self._elements}"
