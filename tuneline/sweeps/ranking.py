"""What came of a sweep: the table of its configurations, and the best one, whose metric is corrected for the choice."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tuneline.core.errors import StageError
from tuneline.core.tables import read_table
from tuneline.metrics.stats import Selection, select_best
from tuneline.metrics.table import METRIC_TABLE
from tuneline.sweeps.record import SWEEP_STATE, Configuration, SweepRecord, predictions_file
from tuneline.sweeps.space import Values
from tuneline.tasks import read_task

LATENCY_COLUMN = "ms"


def ranked_configurations(record: SweepRecord) -> list[Configuration]:
    """Return the configurations, the best first: those that are trained to the end, then by how far they came."""

    def order(configuration: Configuration) -> tuple[bool, int, float, int]:
        mean = configuration.mean()
        return (
            not configuration.is_finished,
            0 if configuration.is_finished else -configuration.steps,
            math.inf if mean is None else -record.sign * mean,
            configuration.number,
        )

    return sorted(record.configurations(), key=order)


def configuration_rows(
    record: SweepRecord, name: str, training: Collection[int] = ()
) -> list[dict[str, str]]:
    """Return the rows of the table, the best first, as texts by column; trials with the numbers in ``training`` are being trained."""
    configurations, rows = ranked_configurations(record), []
    for configuration in configurations:
        mean, spread, latency = configuration.mean(), configuration.spread, configuration.latency_ms
        row = {
            "trial": (
                f"{name}-{configuration.number}"
                + (f" to {configuration.trials[-1].number}" if len(configuration.trials) > 1 else "")
            ),
            "parameters": describe_values(configuration.values),
            record.metric: (
                "" if mean is None else f"{mean:.4f}" + ("" if spread is None else f" ± {spread:.4f}")
            ),
        }
        if any(other.latency_ms is not None for other in configurations):
            row[LATENCY_COLUMN] = (
                "" if latency is None else f"{latency:.2f}{' *' if on_front(record, configuration) else ''}"
            )
        rows.append(
            {
                **row,
                "state": (
                    "trains"
                    if any(trial.number in training for trial in configuration.trials)
                    else configuration.state
                ),
            }
        )
    return rows


def on_front(record: SweepRecord, configuration: Configuration) -> bool:
    """Return True if no other configuration is at least as good in both objectives, and better in one (Pareto)."""
    points = {
        other.number: (record.sign * mean, -other.latency_ms)
        for other in record.configurations()
        if (mean := other.mean()) is not None and other.latency_ms is not None
    }
    own = points.get(configuration.number)
    return own is not None and not any(
        other != own and other[0] >= own[0] and other[1] >= own[1] for other in points.values()
    )


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
    compared = [
        configuration for configuration in ranked_configurations(record) if configuration.mean() is not None
    ]
    if not compared or not compared[0].is_finished:
        return None
    metric = METRIC_TABLE.get(record.metric)
    files = [
        [predictions_file(root / SWEEP_STATE / name, trial.number) for trial in configuration.trials]
        for configuration in compared
    ]
    if (
        metric is None
        or not metric.of_predictions
        or not all(file.exists() for seeds in files for file in seeds)
    ):
        return Winner(compared[0], len(compared))
    tables = [[read_table(file, ["label", "prediction"]) for file in seeds] for seeds in files]
    labels, schema = tables[0][0]["label"].to_numpy(), read_task(tables[0][0].schema, "label")
    predictions = [[table["prediction"].to_numpy() for table in seeds] for seeds in tables]
    chosen = select_best(metric, labels, predictions, average=schema.averaging(None))
    return Winner(
        compared[0], len(compared), chosen, tuple(compared[index] for index in chosen.indistinguishable)
    )


def verdict(won: Winner | None, record: SweepRecord, name: str) -> str:
    """Return what came of a sweep, in sentences."""
    failed = sum(trial.error is not None for trial in record.trials)
    failures = f" {failed} of {len(record.trials)} trials failed." if failed else ""
    if won is None:
        return f"No configuration is trained to the end.{failures}"
    best, chosen = won.best, won.selection
    spread = f" ± {best.spread:.3f} over {len(best.trials)} seeds" if best.spread is not None else ""
    first = f"Best of {won.candidates} on validation: {name}-{best.number} ({describe_values(best.values)})"
    sentences = [f"{first}, {record.metric} {best.mean():.3f}{spread}.{failures}"]
    if chosen is not None:
        expected = f"{chosen.corrected:.3f} ({chosen.low:.3f} to {chosen.high:.3f}) is to be expected"
        sentences.append(f"On new rows, {expected}: corrected for the choice of the best.")
    if won.same:
        more = f" and {len(won.same) - 5} more" if len(won.same) > 5 else ""
        others = ", ".join(f"{name}-{configuration.number}" for configuration in won.same[:5]) + more
        sentences.append(f"These rows cannot tell it apart from {others}; the best is still the best guess.")
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
