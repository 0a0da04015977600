"""The experiments as rows: what differs, the validation metric with its interval, and whether it is distinguishable from the best."""

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from tuneline.core.errors import StageError
from tuneline.core.paths import PARAMS
from tuneline.core.terminal import progress, visible
from tuneline.metrics.table import title_of
from tuneline.project.dvc import load_yaml
from tuneline.project.params_file import flat_values
from tuneline.project.repo import git
from tuneline.project.saved_experiments import (
    BASE_EXPERIMENT,
    SavedExperiment,
    committed_result,
    saved_experiments,
)
from tuneline.project.validation import ScoreDifference, ValidationScore, compare_scores, validation_score

SCORES = (
    "metric",
    "validation",
    "low",
    "high",
    "to_best",
    "to_best_low",
    "to_best_high",
    "distinguishable",
    "test",
)
COLUMNS = ("name", "commit", "base", "date", "seconds", *SCORES)
"""Columns of the CSV file before those of the parameters."""
WIDE = 120
"""Columns of a terminal from which the table breaks no name."""
SHOWN = 4
"""Parameters of an experiment that a terminal shows."""


@dataclass(frozen=True)
class ExperimentRow:
    """One experiment.

    Attributes:
        differs: Parameters that are not those of its base commit, by dotted key.
        to_best: How much better it is than the best one; ``None`` for that one, and if the two cannot be
            compared.
    """

    experiment: SavedExperiment
    score: ValidationScore | None
    differs: Mapping[str, Any]
    to_best: ScoreDifference | None = None
    is_best: bool = False

    @property
    def seconds(self) -> float | None:
        """Seconds of the training; ``None`` if it is unknown, or DVC had the result."""
        return self.experiment.record.get("seconds")

    @cached_property
    def test(self) -> float | None:
        """The same metric on the reported split, if the whole pipeline ran."""
        return self.experiment.metrics("evaluate").get(self.score.metric) if self.score else None

    @property
    def against_best(self) -> str:
        """What the table says about the best one."""
        if self.is_best:
            return "best"
        if self.to_best is None:
            return ""
        difference = f"{self.to_best.value:+.3f}"
        return difference if self.to_best.distinguishable else f"{difference}, {self.to_best.verdict}"

    def values(self) -> dict[str, Any]:
        """Return what is known of it, by column; parameters by their dotted keys."""
        experiment, score, to_best = self.experiment, self.score, self.to_best
        values = {
            "name": experiment.name,
            "commit": experiment.commit,
            "base": experiment.base,
            "date": experiment.date,
            "seconds": self.seconds,
            "test": self.test,
        }
        if score:
            values |= {
                "metric": score.metric,
                "validation": score.value,
                "low": score.low,
                "high": score.high,
            }
        if to_best:
            values |= {"to_best": to_best.value, "to_best_low": to_best.low, "to_best_high": to_best.high}
            values["distinguishable"] = str(to_best.distinguishable).lower()
        return {**flat_values(experiment.params), **values}


@dataclass(frozen=True)
class ExperimentRows:
    """The rows of a table, and the name of each parameter in it: its last part, where that is unambiguous."""

    rows: Sequence[ExperimentRow]
    short: Mapping[str, str] = field(default_factory=dict)

    def text(self, row: ExperimentRow, at_most: int | None = None) -> str:
        """Return what differs, as ``learning_rate=5e-05, epochs=3``."""
        parts = [f"{self.short[key]}={format_value(value)}" for key, value in row.differs.items()]
        more = [f"and {len(parts) - at_most} more"] if at_most is not None and len(parts) > at_most else []
        return ", ".join([*parts[:at_most], *more])

    @property
    def metric(self) -> str | None:
        """The metric of most rows."""
        names = Counter(row.score.metric for row in self.rows if row.score)
        return names.most_common(1)[0][0] if names else None


def format_value(value: Any) -> str:
    """Format a value of a parameter."""
    if isinstance(value, float):
        return f"{value:g}"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def read_rows(root: Path, *, every: bool = False) -> ExperimentRows:
    """Read the finished experiments on HEAD, or all of them with ``every``, and the results committed there; the best first."""
    experiments = saved_experiments(root, None if every else git(root, "rev-parse", "HEAD"))
    bases = {
        base: flat_values(load_yaml(git(root, "show", f"{base}:{PARAMS}")) or {})
        for base in {experiment.base for experiment in experiments}
    }
    without = bases.keys() - {
        experiment.base for experiment in experiments if experiment.name == BASE_EXPERIMENT
    }
    experiments += [result for base in without if (result := committed_result(root, base))]
    with progress("experiments", len(experiments), "experiments") as step:
        rows = []
        for experiment in experiments:
            differs = {
                key: value
                for key, value in flat_values(experiment.params).items()
                if bases[experiment.base].get(key) != value and not key.startswith("run.")
            }
            rows.append(
                ExperimentRow(experiment, validation_score(experiment.metrics(), experiment.params), differs)
            )
            step.advance(1)
        rows = ranked_experiments(root, rows)
    last = Counter(key.rpartition(".")[2] for key in {key for row in rows for key in row.differs})
    short = {
        key: name if last[name := key.rpartition(".")[2]] == 1 else key for row in rows for key in row.differs
    }
    return ExperimentRows(rows, short)


def ranked_experiments(root: Path, rows: Sequence[ExperimentRow]) -> list[ExperimentRow]:
    """Return the rows with the best first, and each compared with the best on the validation rows that both predicted."""
    metric = ExperimentRows(rows).metric
    scored = [row for row in rows if row.score and row.score.metric == metric]
    others = [row for row in rows if row not in scored]
    if not scored:
        return others
    sign = -1 if scored[0].score and scored[0].score.greater_is_better else 1
    scored.sort(key=lambda row: (sign * row.score.value if row.score else 0.0, row.experiment.name))
    best, *worse = scored
    compared = [compare_scores(root, row.experiment.lock, best.experiment.lock, str(metric)) for row in worse]
    return [
        replace(best, is_best=True),
        *(replace(row, to_best=found) for row, found in zip(worse, compared, strict=True)),
        *others,
    ]


def chosen(rows: ExperimentRows, filtered: str | None, sort: str | None) -> ExperimentRows:
    """Return the rows that contain a text in their name or in what differs, ordered by a column."""
    kept = [
        row
        for row in rows.rows
        if filtered is None or filtered.lower() in f"{row.experiment.name} {rows.text(row)}".lower()
    ]
    if sort is None or sort in {"validation", rows.metric}:
        return ExperimentRows(kept, rows.short)
    columns = {
        **{short: key for key, short in rows.short.items()},
        **{name: name for name in (*COLUMNS, *rows.short)},
    }
    if sort not in columns:
        known = [*COLUMNS, *sorted({*rows.short.values()})]
        raise StageError(f"--sort {sort}: there is no such column.", f"Choose one of {', '.join(known)}.")

    def order(row: ExperimentRow) -> tuple[int, Any]:
        value = (
            None
            if columns[sort] in rows.short and columns[sort] not in row.differs
            else row.values().get(columns[sort])
        )
        return (
            (2, "") if value is None else (0, value) if isinstance(value, (int, float)) else (1, str(value))
        )

    return ExperimentRows(sorted(kept, key=order), rows.short)


def experiments_table(rows: ExperimentRows, *, every: bool) -> Table:
    """Return the table for a terminal."""
    tested = any(row.test is not None for row in rows.rows)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), collapse_padding=True)
    table.add_column("experiment", overflow="fold")
    table.add_column("differs from HEAD" if not every else "differs from its commit", overflow="fold")
    table.add_column(f"validation {title_of(rows.metric).lower() if rows.metric else ''}", justify="right")
    table.add_column("against the best", justify="right", overflow="fold", min_width=len("be told apart"))
    for title in (*(["test"] if tested else []), "seconds", "commit", *(["date"] if every else [])):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows.rows:
        other = f"{row.score.metric} " if row.score and row.score.metric != rows.metric else ""
        table.add_row(
            visible(row.experiment.name),
            visible(rows.text(row, SHOWN)) or "nothing",
            f"{other}{row.score}" if row.score else "",
            row.against_best,
            *(["" if row.test is None else f"{row.test:.3f}"] if tested else []),
            "" if row.seconds is None else f"{row.seconds:.0f}",
            row.experiment.commit[:7],
            *([row.experiment.date] if every else []),
        )
    return table


def as_list(rows: ExperimentRows, *, every: bool) -> Text:
    """Return two lines for each experiment, for a terminal that is too narrow for the table: its result, and what it is."""
    text = Text()
    for row in rows.rows:
        text.append(visible(row.experiment.name), "bold")
        if row.score:
            text.append(f": {title_of(row.score.metric).lower()} {row.score}")
        if row.against_best:
            text.append(f", {row.against_best}")
        text.append("\n")

        details = [visible(rows.text(row, SHOWN)) or "nothing differs"]
        if row.test is not None:
            details.append(f"test {row.test:.3f}")
        if row.seconds is not None:
            details.append(f"{row.seconds:.0f} s")
        details.append(f"commit {row.experiment.commit[:7]}")
        if every:
            details.append(row.experiment.date)
        text.append(f"    {', '.join(details)}\n")
    text.rstrip()
    return text


def as_csv(rows: ExperimentRows) -> str:
    """Return all values as CSV: one column for each parameter that differs anywhere."""
    keys, text = dict.fromkeys(key for row in rows.rows for key in row.differs), io.StringIO()
    writer = csv.DictWriter(text, [*COLUMNS, *keys], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.values() for row in rows.rows)
    return text.getvalue().rstrip("\n")
