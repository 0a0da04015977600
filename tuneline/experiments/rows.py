"""The experiments as rows: what differs, the validation metric, and the difference from the best one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from tuneline.experiments.saved import (
    BASE_EXPERIMENT,
    SavedExperiment,
    committed_result,
    saved_experiments,
)
from tuneline.experiments.validation import ScoreDifference, ValidationScore, compare_scores, validation_score
from tuneline.params.params_file import flat_values
from tuneline.paths import PARAMS
from tuneline.repository.dvc import load_yaml
from tuneline.repository.git import git
from tuneline.runtime.errors import StageError
from tuneline.runtime.terminal import progress
from tuneline.runtime.wording import first_of

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
"""Columns of all values before the columns of the parameters."""


@dataclass(frozen=True)
class ExperimentRow:
    """One experiment.

    Attributes:
        differs: Parameters with another value than in its base commit, by dotted key.
        to_best: How much better it is than the best one; ``None`` for the best, and if the two cannot be
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
        if not self.score:
            return None
        return self.experiment.metrics("evaluate").get(self.score.metric)

    @property
    def against_best(self) -> str:
        """What the table says about the best one."""
        if self.is_best:
            return "best"
        if self.to_best is None:
            return ""
        difference = f"{self.to_best.value:+.3f}"
        if self.to_best.distinguishable:
            return difference
        return f"{difference}, {self.to_best.verdict}"

    def values(self) -> dict[str, Any]:
        """Return the value of each column, as far as it is known; parameters by their dotted keys."""
        experiment = self.experiment
        values = flat_values(experiment.params)
        values |= {
            "name": experiment.name,
            "commit": experiment.commit,
            "base": experiment.base,
            "date": experiment.date,
            "seconds": self.seconds,
            "test": self.test,
        }
        score = self.score
        if score:
            values |= {
                "metric": score.metric,
                "validation": score.value,
                "low": score.low,
                "high": score.high,
            }
        to_best = self.to_best
        if to_best:
            values |= {
                "to_best": to_best.value,
                "to_best_low": to_best.low,
                "to_best_high": to_best.high,
                "distinguishable": str(to_best.distinguishable).lower(),
            }
        return values


@dataclass(frozen=True)
class ExperimentRows:
    """The rows of a table, and the name of each parameter in it: its last part, where that is unambiguous."""

    rows: Sequence[ExperimentRow]
    short: Mapping[str, str] = field(default_factory=dict)

    def text(self, row: ExperimentRow, max_parameters: int | None = None) -> str:
        """Return what differs, as ``learning_rate=5e-05, epochs=3``."""
        parts = [f"{self.short[key]}={format_value(value)}" for key, value in row.differs.items()]
        if max_parameters is None:
            return ", ".join(parts)
        return first_of(parts, max_parameters)

    @property
    def metric(self) -> str | None:
        """The metric of most rows."""
        names = Counter(row.score.metric for row in self.rows if row.score)
        if not names:
            return None
        [(name, _)] = names.most_common(1)
        return name


def format_value(value: Any) -> str:
    """Format a value of a parameter as YAML would, and numbers in few digits."""
    if isinstance(value, float):
        return f"{value:g}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def read_rows(root: Path, *, every: bool = False) -> ExperimentRows:
    """Read the finished experiments on HEAD, and the results committed there; the best first.

    Args:
        root: Root of the project.
        every: Read the experiments on all commits.
    """
    # experiments, and the results of the commits that have no experiment of their own parameters
    if every:
        experiments = saved_experiments(root, None)
    else:
        experiments = saved_experiments(root, git(root, "rev-parse", "HEAD"))
    bases = {}
    for base in {experiment.base for experiment in experiments}:
        params = load_yaml(git(root, "show", f"{base}:{PARAMS}"))
        bases[base] = flat_values(params or {})
    with_base = {experiment.base for experiment in experiments if experiment.name == BASE_EXPERIMENT}
    for base in bases.keys() - with_base:
        result = committed_result(root, base)
        if result:
            experiments.append(result)

    # rows
    rows = []
    with progress("experiments", len(experiments), "experiments") as step:
        for experiment in experiments:
            # Against the params.yaml of its own commit, which is not HEAD's with --all
            differs = _differing(experiment, bases[experiment.base])
            score = validation_score(experiment.metrics(), experiment.params)
            rows.append(ExperimentRow(experiment, score, differs))
            step.advance(1)
        rows = ranked_experiments(root, rows)
    return ExperimentRows(rows, _short_names(rows))


def _differing(experiment: SavedExperiment, base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with another value than in the base commit.

    How a run is tracked is no difference.
    """
    differs = {}
    for key, value in flat_values(experiment.params).items():
        if base.get(key) != value and not key.startswith("run."):
            differs[key] = value
    return differs


def _short_names(rows: Sequence[ExperimentRow]) -> dict[str, str]:
    """Return the last part of each key that differs, or the whole key where two keys end with the same."""
    keys = dict.fromkeys(key for row in rows for key in row.differs)
    last_parts = Counter(key.rpartition(".")[2] for key in keys)
    short = {}
    for key in keys:
        _, _, last = key.rpartition(".")
        is_unambiguous = last_parts[last] == 1
        short[key] = last if is_unambiguous else key
    return short


def ranked_experiments(root: Path, rows: Sequence[ExperimentRow]) -> list[ExperimentRow]:
    """Return the rows with the best first.

    Each row is compared with the best one on the validation rows that both predicted.
    """
    metric = ExperimentRows(rows).metric
    scored = []
    unscored = []
    for row in rows:
        if row.score and row.score.metric == metric:
            scored.append((row.score, row))
        else:
            unscored.append(row)
    if not scored:
        return unscored

    def order(pair: tuple[ValidationScore, ExperimentRow]) -> tuple[float, str]:
        score, row = pair
        if score.greater_is_better:
            return -score.value, row.experiment.name
        return score.value, row.experiment.name

    scored.sort(key=order)
    _, best = scored[0]
    ranked = [replace(best, is_best=True)]
    for _, row in scored[1:]:
        difference = compare_scores(root, row.experiment.lock, best.experiment.lock, str(metric))
        ranked.append(replace(row, to_best=difference))
    return ranked + unscored


def chosen(rows: ExperimentRows, filtered: str | None, sort: str | None) -> ExperimentRows:
    """Return the rows that contain a text in their name or in what differs, ordered by a column."""
    # rows
    kept = []
    for row in rows.rows:
        text = f"{row.experiment.name} {rows.text(row)}"
        if filtered is None or filtered.lower() in text.lower():
            kept.append(row)
    if sort is None or sort in {"validation", rows.metric}:  # as they are: the best first
        return ExperimentRows(kept, rows.short)

    # order: a parameter may be named by its short name or by its key, and a column of a score
    # comes before a parameter of its name
    columns = {short: key for key, short in rows.short.items()}
    for name in chain(COLUMNS, rows.short):
        columns[name] = name
    if sort not in columns:
        names = [*COLUMNS, *sorted(set(rows.short.values()))]
        raise StageError(f"--sort {sort}: there is no such column.", f"Choose one of {', '.join(names)}.")
    column = columns[sort]

    def order(row: ExperimentRow) -> tuple[int, Any]:
        value = row.values().get(column)
        if column in rows.short and column not in row.differs:
            value = None  # the value of the base commit, which the table does not show
        if value is None:
            return 2, ""
        if isinstance(value, (int, float)):
            return 0, value
        return 1, str(value)

    return ExperimentRows(sorted(kept, key=order), rows.short)
