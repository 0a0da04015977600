"""Writes ``reports/checks/``, including the pages of Great Expectations (Data Docs).

Great Expectations' own templates load styles and scripts from the network, number elements at random and
print the time. So its library renders the content of a page only, and templates of this package replace the
frame: static, offline, and the same bytes for the same data.
"""

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
from great_expectations.render.view.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, FileSystemLoader

from stages.validate.expectations import CheckResults, excerpt
from tuneline.analysis.drift import Distribution
from tuneline.core.paths import SPLITS
from tuneline.reports.checks import CheckEntry, Profile
from tuneline.reports.page import draw_histograms, style, template_environment

MAX_CLASSES = 20
"""Classes with a row of their own, the most frequent of train; the others share one."""


@dataclass(frozen=True)
class ClassShare:
    """Rows of a class, or of several rare ones, and their fraction of the labelled rows, by split."""

    name: str
    rows: Mapping[str, int]
    fractions: Mapping[str, float]


def data_overview(profile: Profile) -> dict[str, Any]:
    """Return the distributions of the data for the page: rows by split, figures of lengths and of the targets of a regression.

    The shares of classes are empty for a regression; the most frequent in train come first. The largest share
    is the full width of a bar.
    """
    labels = {
        split: profiled.labels for split, profiled in profile.splits.items() if profiled.labels is not None
    }
    characters = {split: profiled.characters for split, profiled in profile.splits.items()}
    classes = class_shares(profile.labels or (), labels)
    return {
        "rows": {split: profiled.rows for split, profiled in profile.splits.items()},
        "lengths": draw_histograms("length", "Length", characters, logarithmic=True),
        "targets": (
            draw_histograms("label", "Label", labels, logarithmic=False) if profile.task.ordered else None
        ),
        "classes": classes,
        "largest": (
            max([fraction for share in classes for fraction in share.fractions.values()], default=0.0) or 1.0
        ),
    }


def class_shares(names: Sequence[str], labels: Mapping[str, Distribution]) -> list[ClassShare]:
    """Return the share of each class in each split, given the rows per class id of the splits with labels."""
    first = next(iter(labels.values()), Distribution((), ()))
    order = sorted(range(len(names)), key=lambda index: (-_count(first, index), index))
    shown, rest = order[:MAX_CLASSES], order[MAX_CLASSES:]
    if len(rest) == 1:
        shown, rest = order, []
    shares = [_share(excerpt(names[index]), [index], labels) for index in shown]
    return [*shares, _share(f"{len(rest):,} other classes", rest, labels)] if rest else shares


def _count(distribution: Distribution, index: int) -> int:
    return distribution.counts[index] if index < len(distribution.counts) else 0


def _share(name: str, indices: Sequence[int], labels: Mapping[str, Distribution]) -> ClassShare:
    rows = {split: sum(_count(one, index) for index in indices) for split, one in labels.items()}
    return ClassShare(
        name, rows, {split: rows[split] / max(sum(one.counts), 1) for split, one in labels.items()}
    )


@dataclass(frozen=True)
class PassedCheck:
    """A check that passed on at least one split; ``found`` are the measurements, in words, by split, ``failed`` where it did not pass.

    Notes have the split before each. It is noteworthy if it found rows or anything else within its limit.
    """

    check: str
    title: str
    allowed: str
    found: Mapping[str, str]
    notes: Sequence[str]
    is_noteworthy: bool

    @classmethod
    def of(cls, results: Sequence[CheckEntry]) -> "PassedCheck":
        """Join the results of one check."""
        passed = [result for result in results if result.status == "passed"]
        found: dict[str, list[str]] = {}
        for result in results:
            found.setdefault(result.split, []).append(result.found if result.status == "passed" else "failed")
        return cls(
            check=results[0].check,
            title=results[0].title,
            allowed="; ".join(_unique(result.allowed for result in passed)),
            found={split: "; ".join(_unique(values)) for split, values in found.items()},
            notes=_unique(f"{result.split}: {note}" for result in passed for note in result.notes),
            is_noteworthy=any(result.failing or result.notes for result in passed),
        )


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


TEMPLATES = Path(__file__).parent / "templates"


def write_checks(folder: Path, results: CheckResults) -> None:
    """Write ``checks.json``, ``index.html``, ``profile.json``, ``words.json``, ``passed``, and Great Expectations' ``data_docs/``.

    Training depends on ``passed``, which is written if there is no error. Its content never changes, so that
    changed measurements on unchanged data do not cause a new training.
    """
    results.record.write(folder / "checks.json")
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

    ``row_files`` are the checks with a file of all their violating rows beside the page,
    ``rows/CHECK.parquet``.
    """
    groups: dict[str, list[CheckEntry]] = {}
    for result in results.record.checks:
        groups.setdefault(result.check, []).append(result)
    passed = [
        PassedCheck.of(group)
        for group in groups.values()
        if any(result.status == "passed" for result in group)
    ]
    template = template_environment(TEMPLATES).get_template("index.html.j2")
    return template.render(
        checks=results,
        data=data_overview(results.profile),
        splits=SPLITS,
        noteworthy=[check for check in passed if check.is_noteworthy],
        passed=[check for check in passed if not check.is_noteworthy],
        row_files=row_files,
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
