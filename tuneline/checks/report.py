"""Writes ``reports/checks/``: results for programs, the page for people, the profile, and ``passed``."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from tuneline.checks.expectations import CheckResults, excerpt
from tuneline.checks.page import template_environment
from tuneline.checks.results import CheckEntry, Profile
from tuneline.core.paths import SPLITS
from tuneline.core.stage.records import write_record

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
    passed = []
    for entries in groups.values():
        if any(entry.status == "passed" for entry in entries):
            passed.append(passed_check(entries))
    profiles = results.profile.splits
    return (
        template_environment(TEMPLATES)
        .get_template("index.html.j2")
        .render(
            checks=results,
            rows={split: profile.rows for split, profile in profiles.items()},
            classes=class_shares(results.profile),
            splits=SPLITS,
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


def class_shares(profile: Profile) -> list[dict[str, Any]]:
    """Return the name of each class that is shown, and the share of the rows with it in each split."""
    counts: dict[str, Sequence[int]] = {}
    for split, profiled in profile.splits.items():
        if profiled.labels is not None:
            counts[split] = profiled.labels.counts
    if profile.labels is None or not counts:
        return []
    most_frequent = sorted(enumerate(next(iter(counts.values()))), key=lambda entry: -entry[1])
    shares = []
    for index, _ in most_frequent[:MAX_CLASSES]:
        fractions = {}
        for split, of_split in counts.items():
            fractions[split] = of_split[index] / max(profile.splits[split].rows, 1)
        shares.append({"name": excerpt(profile.labels[index]), "fractions": fractions})
    return shares
