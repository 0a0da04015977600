"""What came of a sweep: the table of its configurations, and the best one.

The metric of the best one is corrected for the choice.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tuneline.metrics.judging import averaging
from tuneline.metrics.stats import Selection, select_best
from tuneline.metrics.table import METRIC_TABLE
from tuneline.predictions.files import read_predictions
from tuneline.runtime.errors import StageError
from tuneline.runtime.wording import first_of
from tuneline.sweeps.record import SWEEP_STATE, Configuration, SweepRecord, predictions_file
from tuneline.sweeps.space import Values

LATENCY_COLUMN = "ms"
SHOWN_SAME = 5
"""Configurations that cannot be told from the best one, of those that are named."""


def ranked_configurations(record: SweepRecord) -> list[Configuration]:
    """Return the configurations, the best first.

    First come those that are trained to the end, by their metric; then the others, by how far they came.
    """

    def order(configuration: Configuration) -> tuple[bool, int, float, int]:
        mean = configuration.mean()
        remaining = 0 if configuration.is_finished else -configuration.steps
        worse = math.inf if mean is None else -record.sign * mean
        return not configuration.is_finished, remaining, worse, configuration.number

    return sorted(record.configurations(), key=order)


def configuration_rows(
    record: SweepRecord, name: str, training: Collection[int] = ()
) -> list[dict[str, str]]:
    """Return the rows of the table, the best first, as texts by column.

    Trials with the numbers in ``training`` are being trained.
    """
    configurations = ranked_configurations(record)
    has_latency = any(configuration.latency_ms is not None for configuration in configurations)
    rows = []
    for configuration in configurations:
        row = {
            "trial": _trial_names(configuration, name),
            "parameters": describe_values(configuration.values),
            record.metric: _metric_text(configuration),
        }
        if has_latency:
            row[LATENCY_COLUMN] = _latency_text(record, configuration)
        is_training = any(trial.number in training for trial in configuration.trials)
        row["state"] = "trains" if is_training else configuration.state
        rows.append(row)
    return rows


def _trial_names(configuration: Configuration, name: str) -> str:
    """Return the name of a trial, or of the first and the last one of several seeds."""
    first = f"{name}-{configuration.number}"
    if len(configuration.trials) == 1:
        return first
    return f"{first} to {configuration.trials[-1].number}"


def _metric_text(configuration: Configuration) -> str:
    """Return mean and standard deviation over the seeds, as far as they are known."""
    mean, spread = configuration.mean(), configuration.spread
    if mean is None:
        return ""
    return f"{mean:.4f}" if spread is None else f"{mean:.4f} ± {spread:.4f}"


def _latency_text(record: SweepRecord, configuration: Configuration) -> str:
    """Return the latency in milliseconds, with a mark on the Pareto front."""
    latency = configuration.latency_ms
    if latency is None:
        return ""
    return f"{latency:.2f} *" if on_front(record, configuration) else f"{latency:.2f}"


def on_front(record: SweepRecord, configuration: Configuration) -> bool:
    """Return True if no configuration is at least as good in both objectives and better in one (Pareto)."""
    points = {}
    for rival in record.configurations():
        mean, latency = rival.mean(), rival.latency_ms
        if mean is not None and latency is not None:
            points[rival.number] = record.sign * mean, -latency
    if configuration.number not in points:
        return False

    own = points[configuration.number]
    return not any(point != own and point[0] >= own[0] and point[1] >= own[1] for point in points.values())


@dataclass(frozen=True)
class Winner:
    """The best configuration on validation.

    Attributes:
        best: Its first seed is what ``tuneline sweep apply`` takes: no seed is chosen, so the interval holds
            for it.
        candidates: Number of configurations from which it was chosen.
        selection: Its metric, corrected for the choice; ``None`` for a metric that cannot be computed from
            predictions.
        same: Configurations that cannot be told from it.
    """

    best: Configuration
    candidates: int
    selection: Selection | None = None
    same: tuple[Configuration, ...] = ()


def winner(root: Path, name: str, record: SweepRecord) -> Winner | None:
    """Return the best configuration of those that are trained to the end; ``None`` if there is none."""
    ranked = ranked_configurations(record)
    compared = [configuration for configuration in ranked if configuration.mean() is not None]
    if not compared or not compared[0].is_finished:
        return None

    # the correction needs the predictions of all, each as far as it was trained
    metric = METRIC_TABLE.get(record.metric)
    folder = root / SWEEP_STATE / name
    files = [
        [predictions_file(folder, trial.number) for trial in configuration.trials]
        for configuration in compared
    ]
    are_there = all(file.exists() for seeds in files for file in seeds)
    if metric is None or not metric.of_predictions or not are_there:
        return Winner(compared[0], len(compared))

    predictions = [[read_predictions(file) for file in seeds] for seeds in files]
    first = predictions[0][0]
    selection = select_best(
        metric,
        first.labels,
        [[seed.values for seed in seeds] for seeds in predictions],
        average=averaging(first.task),
        clusters=first.clusters,
    )
    same = tuple(compared[index] for index in selection.indistinguishable)
    return Winner(compared[0], len(compared), selection, same)


def verdict(won: Winner | None, record: SweepRecord, name: str) -> str:
    """Return what came of a sweep, in sentences."""
    failed = sum(trial.error is not None for trial in record.trials)
    failures = f" {failed} of {len(record.trials)} trials failed." if failed else ""
    if won is None:
        return f"No configuration is trained to the end.{failures}"

    best, selection = won.best, won.selection
    spread = f" ± {best.spread:.3f} over {len(best.trials)} seeds" if best.spread is not None else ""
    first = f"Best of {won.candidates} on validation: {name}-{best.number} ({describe_values(best.values)})"
    sentences = [f"{first}, {record.metric} {best.mean():.3f}{spread}.{failures}"]
    if selection is not None:
        expected = f"{selection.corrected:.3f} ({selection.low:.3f} to {selection.high:.3f})"
        sentences.append(f"On new rows, {expected} is to be expected: corrected for the choice of the best.")
    if won.same:
        names = first_of([f"{name}-{configuration.number}" for configuration in won.same], SHOWN_SAME)
        sentences.append(f"These rows cannot tell it apart from {names}; the best is still the best guess.")
    return "\n".join(sentences)


def describe_values(values: Values) -> str:
    """Return parameters in one line, without their section."""
    return ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in values.items())


def find_winner(root: Path, name: str) -> Winner:
    """Return the best configuration of a sweep that has run; a ``StageError`` if there is none."""
    record = SweepRecord.read_if_exists(root / SWEEP_STATE / name / "record.json")
    if record is None:
        raise StageError(f"There is no sweep {name} here.", f"Run it: tuneline sweep conf/sweep/{name}.yaml")
    won = winner(root, name, record)
    if won is None:
        raise StageError(
            f"No configuration of sweep {name} is trained to the end.",
            f"Go on: tuneline sweep conf/sweep/{name}.yaml",
        )
    return won
