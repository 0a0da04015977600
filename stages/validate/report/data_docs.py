"""Great Expectations' own pages (Data Docs), made without its context: static, offline, and the same for the same data.

Its templates load styles and scripts from the network, number elements at random and print the time. Here the library renders the
content of a page, and three templates of ours stand in place of its frame.
"""

import copy
from pathlib import Path

from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
from great_expectations.render.view.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, FileSystemLoader

TEMPLATES = Path(__file__).parent / "data_docs"


class OfflinePageView(DefaultJinjaPageView):
    """Great Expectations' page in a frame that needs no network, with elements numbered in order."""

    def __init__(self) -> None:
        super().__init__()
        self._elements = 0
        theirs = [self.env.loader] if self.env.loader else []
        self.env.loader = ChoiceLoader([FileSystemLoader(TEMPLATES), *theirs])
        self.env.filters["generate_html_element_uuid"] = self._number

    def page(self, result: ExpectationSuiteValidationResult) -> str:
        """Renders one validation result; its run id, its times and its batch id are left out."""
        self._elements = 0
        plain = copy.deepcopy(result)
        plain.meta = {}
        rendered: str = self.render(ValidationResultsPageRenderer().render(plain))  # type: ignore[no-untyped-call]
        return rendered

    def _number(self, prefix: str | None = None) -> str:
        self._elements += 1
        return f"{prefix or ''}{self._elements}"
