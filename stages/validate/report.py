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
from jinja2 import BaseLoader, ChoiceLoader, FileSystemLoader

from stages.validate.checks import percent
from stages.validate.expectations import CheckResults, excerpt
from tuneline.analysis.drift import Distribution
from tuneline.core.written_records import write_record
from tuneline.paths import SPLITS
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
    """Return the distributions of the data for the page.

    They are rows by split, figures of lengths and of the targets of a regression, and the shares of classes,
    the most frequent in train first; empty for a regression. The largest share is the full width of a bar.
    Where a row can have several labels, ``sets`` has their figures by split, in words.
    """
    rows = {}
    characters = {}
    labels = {}
    sets = {}
    for split, profiled in profile.splits.items():
        rows[split] = profiled.rows
        characters[split] = profiled.characters
        if profiled.labels is not None:
            labels[split] = profiled.labels
        if profiled.label_figures:
            sets[split] = described_sets(profiled.label_figures)

    targets = None
    if not profile.task.has_classes:
        targets = draw_histograms("label", "Label", labels, logarithmic=False)

    if sets:
        classes = label_shares(profile.labels or (), labels, rows)
    else:
        classes = class_shares(profile.labels or (), labels)
    fractions: list[float] = []
    for share in classes:
        fractions += share.fractions.values()
    return {
        "rows": rows,
        "lengths": draw_histograms("length", "Length", characters, logarithmic=True),
        "targets": targets,
        "classes": classes,
        "sets": sets,
        "largest": max(fractions, default=0.0) or 1.0,
    }


def class_shares(names: Sequence[str], labels: Mapping[str, Distribution]) -> list[ClassShare]:
    """Return the share of each class in each split, given the rows per class id of the splits with labels."""
    first, rest = _most_frequent(names, labels)
    shares = [_share(excerpt(names[index]), [index], labels) for index in first]
    if rest:
        shares.append(_share(f"{len(rest):,} other classes", rest, labels))
    return shares


def label_shares(
    names: Sequence[str], labels: Mapping[str, Distribution], rows: Mapping[str, int]
) -> list[ClassShare]:
    """Return the share of the rows with each label in each split: a row has any number of them.

    Of the labels that are not shown, the most frequent in train counts: several can be in one row.
    """
    first, rest = _most_frequent(names, labels)
    shares = [_share_of_rows(excerpt(names[index]), index, labels, rows) for index in first]
    if rest:
        shares.append(_share_of_rows(f"each of {len(rest):,} others, at most", rest[0], labels, rows))
    return shares


def _most_frequent(names: Sequence[str], labels: Mapping[str, Distribution]) -> tuple[list[int], list[int]]:
    """Return the ids of the classes that are shown, the most frequent in train first, and of all others."""
    train = next(iter(labels.values()), Distribution((), ()))
    order = sorted(range(len(names)), key=lambda index: (-_count(train, index), index))
    shown = MAX_CLASSES
    if len(order) == shown + 1:  # one class more takes as much space as "1 other class"
        shown += 1
    return order[:shown], order[shown:]


def _count(distribution: Distribution, index: int) -> int:
    """Return the rows of a class; 0 for a class that the distribution does not have."""
    if index >= len(distribution.counts):
        return 0
    return distribution.counts[index]


def _share(name: str, indices: Sequence[int], labels: Mapping[str, Distribution]) -> ClassShare:
    """Return the share of the classes with these ids in each split."""
    rows = {}
    fractions = {}
    for split, distribution in labels.items():
        rows[split] = sum(_count(distribution, index) for index in indices)
        fractions[split] = rows[split] / max(sum(distribution.counts), 1)
    return ClassShare(name, rows, fractions)


def _share_of_rows(
    name: str, index: int, labels: Mapping[str, Distribution], rows: Mapping[str, int]
) -> ClassShare:
    """Return the share of the rows of each split that have a label."""
    counts = {}
    fractions = {}
    for split, distribution in labels.items():
        counts[split] = _count(distribution, index)
        fractions[split] = counts[split] / max(rows[split], 1)
    return ClassShare(name, counts, fractions)


def described_sets(figures: Mapping[str, float]) -> dict[str, str]:
    """Return figures of sets of labels as people read them, by their names in the page."""
    return {
        "Labels per row (cardinality)": f"{figures['labels_per_row']:.2f}",
        "Share of all labels (density)": percent(figures["label_density"]),
        "Rows without a label": percent(figures["rows_without_label"]),
    }


@dataclass(frozen=True)
class PassedCheck:
    """A check that passed on at least one split.

    Attributes:
        found: Measurements, in words, by split; ``failed`` where the check did not pass.
        notes: Notes, with the split before each.
        is_noteworthy: True if the check found rows or anything else within its limit.
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
        allowed: list[str] = []
        found: dict[str, list[str]] = {}
        notes: list[str] = []
        is_noteworthy = False
        for result in results:
            found_in_split = found.setdefault(result.split, [])
            if result.status != "passed":
                found_in_split.append("failed")
                continue
            found_in_split.append(result.found)
            allowed.append(result.allowed)
            notes += [f"{result.split}: {note}" for note in result.notes]
            if result.failing or result.notes:
                is_noteworthy = True
        return cls(
            check=results[0].check,
            title=results[0].title,
            allowed="; ".join(_unique(allowed)),
            found={split: "; ".join(_unique(values)) for split, values in found.items()},
            notes=_unique(notes),
            is_noteworthy=is_noteworthy,
        )


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


TEMPLATES = Path(__file__).parent / "templates"


def write_checks(folder: Path, results: CheckResults) -> None:
    """Write everything in ``reports/checks/`` but the files of rows.

    These are ``checks.json``, ``index.html``, ``profile.json``, ``passed``, and ``data_docs/`` of Great
    Expectations. Training depends on ``passed``, which is written if there is no error. Its content never
    changes, so that changed measurements on unchanged data do not cause a new training.
    """
    write_record(folder / "checks.json", results.record)
    write_record(folder / "profile.json", results.profile)
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

    noteworthy = []
    passed = []
    for group in groups.values():
        if not any(result.status == "passed" for result in group):
            continue
        check = PassedCheck.of(group)
        if check.is_noteworthy:
            noteworthy.append(check)
        else:
            passed.append(check)

    template = template_environment(TEMPLATES).get_template("index.html.j2")
    return template.render(
        checks=results,
        data=data_overview(results.profile),
        splits=SPLITS,
        noteworthy=noteworthy,
        passed=passed,
        row_files=row_files,
    )


class OfflinePageView(DefaultJinjaPageView):
    """A page of Great Expectations that needs no network, with elements numbered in order."""

    def __init__(self) -> None:
        super().__init__()
        self._elements = 0
        # templates of this package come before templates of Great Expectations that have the same names
        loaders: list[BaseLoader] = [FileSystemLoader(TEMPLATES)]
        if self.env.loader:
            loaders.append(self.env.loader)
        self.env.loader = ChoiceLoader(loaders)
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
