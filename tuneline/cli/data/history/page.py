"""The page of the versions of the data."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from tuneline.cli.data.history.changes import LARGE, Change, is_large
from tuneline.page import environment
from tuneline.page.plots import Lines, number
from tuneline.paths import SPLITS

Value = Callable[[Change], float | None]
TEMPLATES = Path(__file__).parent / "templates"
MAX_CLASSES = 12
"""Classes that are drawn, the most frequent of the newest version."""


def render(changes: Sequence[Change], *, more: bool) -> str:
    """Return the page as HTML. Everything that comes from the data is escaped.

    Args:
        changes: The versions, the newest first.
        more: True if there are older versions.
    """
    templates = environment(TEMPLATES)
    templates.filters["number"] = number
    templates.tests["large"] = is_large
    return templates.get_template("history.html.j2").render(
        changes=changes,
        more=more,
        splits=[split for split in SPLITS if any(split in change.rows for change in changes)],
        missing=[change for change in changes if change.version.profile is None],
        plots=plots(list(reversed(changes))),
        classes=class_lines(list(reversed(changes))),
    )


def plots(changes: Sequence[Change]) -> list[Lines]:
    """Draw what changed over the versions, the oldest first."""
    ends = [changes[0].version.title, changes[-1].version.title][: len(changes)]

    def draw(title: str, unit: str, series: Mapping[str, Value], marks: Mapping[str, float] | None = None) -> Lines:
        return Lines(title, unit, {name: [value(change) for change in changes] for name, value in series.items()}, ends, marks or {})

    drawn = [
        draw("Rows", "by split", {split: partial(_rows, split) for split in SPLITS}),
        draw(
            "Length",
            "characters of a row of train",
            {name: partial(_length, level) for name, level in (("median", 0.5), ("longest 20th", 0.95), ("shortest 20th", 0.05))},
        ),
        draw(
            "Drift",
            "population stability index of train against the version before",
            {
                "labels": lambda change: change.labels.value if change.labels else None,
                "lengths": lambda change: change.lengths.value if change.lengths else None,
            },
            {f"large: {LARGE}": LARGE},
        ),
        draw("Different words", "in train", {"words": lambda change: change.version.words.different if change.version.words else None}),
        draw(
            "New common words",
            "percent of the 500 most common words of train that were not common before",
            {"words": lambda change: None if change.new_common is None else 100 * change.new_common},
        ),
        draw("Failed checks", "errors and warnings", {"checks": lambda change: change.failures}),
    ]
    return [plot for plot in drawn if plot.drawn]


def _rows(split: str, change: Change) -> float | None:
    return change.rows.get(split)


def _length(level: float, change: Change) -> float | None:
    return change.characters.quantile(level) if change.characters else None


def class_lines(changes: Sequence[Change]) -> list[Lines]:
    """Draw the percentage of each class in train over the versions, the oldest first; on one scale, so that classes can be compared."""
    newest = next((change.classes for change in reversed(changes) if change.classes), {})
    names = sorted({name for change in changes for name in change.classes}, key=lambda name: (-newest.get(name, 0), name))[:MAX_CLASSES]
    percents = {name: [100 * change.classes.get(name, 0.0) if change.classes else None for change in changes] for name in names}
    top = max((value for values in percents.values() for value in values if value is not None), default=0.0)
    return [Lines(name, "", {name: values}, [], {}, top) for name, values in percents.items()]
