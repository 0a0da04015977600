"""Writes ``reports/checks/``: results for programs, the page for people, the profile, and ``passed``."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from stages.validate.expectations import CheckResults, excerpt
from tuneline.analysis.drift import Distribution
from tuneline.core.records import write_record
from tuneline.paths import SPLITS
from tuneline.reports.checks import CheckEntry, Profile
from tuneline.reports.page import draw_histograms, template_environment

TEMPLATES = Path(__file__).parent / "templates"
MAX_CLASSES = 20
"""Classes with a row of their own, the most frequent of train."""


def write_checks(folder: Path, results: CheckResults) -> None:
    """Write everything in ``reports/checks/`` but the files of rows.

    These are ``checks.json``, ``index.html``, ``profile.json`` and ``passed``. Training depends on
    ``passed``, which is written if there is no error. Its content never changes, so that changed measurements
    on unchanged data do not cause a new training.
    """
    write_record(folder / "checks.json", results.record)
    write_record(folder / "profile.json", results.profile)
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
    for entry in results.record.checks:
        groups.setdefault(entry.check, []).append(entry)
    noteworthy = []
    passed = []
    for entries in groups.values():
        row = passed_check(entries)
        if not row["allowed"]:  # none of them passed
            continue
        if row["notes"] or any(entry.status == "passed" and entry.failing for entry in entries):
            noteworthy.append(row)
        else:
            passed.append(row)
    return (
        template_environment(TEMPLATES)
        .get_template("index.html.j2")
        .render(
            checks=results,
            data=data_overview(results.profile),
            splits=SPLITS,
            noteworthy=noteworthy,
            passed=passed,
            row_files=row_files,
        )
    )


def passed_check(entries: Sequence[CheckEntry]) -> dict[str, Any]:
    """Join the results of one check to a row of the table of passed checks."""
    allowed = []
    notes = []
    found: dict[str, list[str]] = {}
    for entry in entries:
        of_split = found.setdefault(entry.split, [])
        if entry.status != "passed":
            of_split.append("failed")
            continue
        of_split.append(entry.found)
        allowed.append(entry.allowed)
        notes += [f"{entry.split}: {note}" for note in entry.notes]
    return {
        "check": entries[0].check,
        "title": entries[0].title,
        "allowed": _joined(allowed),
        "found": {split: _joined(values) for split, values in found.items()},
        "notes": list(dict.fromkeys(notes)),
    }


def _joined(values: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(values))


def data_overview(profile: Profile) -> dict[str, Any]:
    """Return the distributions of the data for the page.

    They are rows by split, figures of lengths and of the targets of a regression, and the rows of the most
    frequent classes of train; of several labels per row, each counts.
    """
    labels = {split: profiled.labels for split, profiled in profile.splits.items() if profiled.labels}
    rows = {split: profiled.rows for split, profiled in profile.splits.items()}
    lengths = {split: profiled.characters for split, profiled in profile.splits.items()}
    targets = None
    if not profile.task.has_classes:
        targets = draw_histograms("label", "Label", labels, logarithmic=False)
    return {
        "rows": rows,
        "lengths": draw_histograms("length", "Length", lengths, logarithmic=True),
        "targets": targets,
        "classes": class_shares(profile.labels or (), labels, rows),
    }


def class_shares(
    names: Sequence[str], labels: Mapping[str, Distribution], rows: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the name of each class that is shown, and the share of the rows with it in each split."""
    counts = {split: dict(enumerate(distribution.counts)) for split, distribution in labels.items()}
    train = next(iter(counts.values()), {})
    order = sorted(range(len(names)), key=lambda index: -train.get(index, 0))
    shares = []
    for index in order[:MAX_CLASSES]:
        fractions = {
            split: of_split.get(index, 0) / max(rows[split], 1) for split, of_split in counts.items()
        }
        shares.append({"name": excerpt(names[index]), "fractions": fractions})
    return shares
