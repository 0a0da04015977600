"""What came of a sweep: the table of its configurations, and the best one, whose metric is corrected for the choice."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuneline.analysis.selection import Selection, select_best
from tuneline.core.errors import StageError
from tuneline.core.tables import LabelSchema, read_table
from tuneline.metrics.scores import averaging
from tuneline.metrics.table import METRIC_TABLE
from tuneline.sweeps.record import STATE, SweepRecord, Trial, predictions_file
from tuneline.sweeps.space import SEED, Values


@dataclass(frozen=True)
class Row:
    """One configuration: its trials, the validation metric as far as they were trained, and its state in words.

    Attributes:
        spread: Standard deviation over the seeds; ``None`` for a single one.
    """

    trials: Sequence[Trial]
    values: Values
    mean: float | None
    spread: float | None
    latency_ms: float | None
    state: str

    @property
    def is_finished(self) -> bool:
        """True if all seeds are trained to the end."""
        return all(trial.is_finished for trial in self.trials)


def rows(record: SweepRecord) -> list[Row]:
    """Return the configurations, the best first: those that are trained to the end, then by how far they came."""
    found = [_row(trials) for trials in record.configurations()]
    sign = -1 if record.greater_is_better else 1

    def order(row: Row) -> tuple[bool, int, float, int]:
        steps = 0 if row.is_finished else -min(trial.steps for trial in row.trials)
        return not row.is_finished, steps, float("inf") if row.mean is None else sign * row.mean, row.trials[0].number

    return sorted(found, key=order)


def _row(trials: Sequence[Trial]) -> Row:
    scores = [trial.metric if trial.is_finished else trial.rungs[-1] for trial in trials if trial.is_finished or trial.rungs]
    known = [score for score in scores if score is not None]
    failed = next((trial for trial in trials if trial.error), None)
    complete = failed is None and len(known) == len(trials)
    latencies = [trial.latency_ms for trial in trials if trial.latency_ms is not None]
    return Row(
        trials,
        {key: value for key, value in trials[0].parameters.items() if key != SEED},
        statistics.fmean(known) if complete else None,
        statistics.stdev(known) if complete and len(known) > 1 else None,
        statistics.fmean(latencies) if len(latencies) == len(trials) else None,
        _state(trials, failed),
    )


def _state(trials: Sequence[Trial], failed: Trial | None) -> str:
    if failed is not None:
        return f"failed: {failed.error}"
    if all(trial.is_finished for trial in trials):
        return "trained"
    steps = min(trial.steps for trial in trials)
    return f"step {steps} of {trials[0].total_steps}" if steps else "waits"


def on_front(record: SweepRecord, row: Row) -> bool:
    """Return True if no other configuration is at least as good in both objectives, and better in one (Pareto)."""
    sign = 1 if record.greater_is_better else -1
    points = [(sign * one.mean, -one.latency_ms) for one in rows(record) if one.mean is not None and one.latency_ms is not None]
    if row.mean is None or row.latency_ms is None:
        return False
    own = (sign * row.mean, -row.latency_ms)
    return not any(other != own and other[0] >= own[0] and other[1] >= own[1] for other in points)


@dataclass(frozen=True)
class Winner:
    """The best configuration on validation.

    Attributes:
        trial: Its first seed, which ``tuneline sweep apply`` takes: no seed is chosen, so the interval holds for it.
        selection: Its metric, corrected for the choice; ``None`` for a metric that cannot be computed from predictions.
        candidates: Number of configurations from which it was chosen.
        same: Configurations that cannot be told from it.
    """

    row: Row
    trial: Trial
    selection: Selection | None
    candidates: int
    same: tuple[Row, ...] = ()


def winner(root: Path, name: str, record: SweepRecord) -> Winner | None:
    """Return the best configuration of those that are trained to the end; ``None`` if there is none."""
    found = rows(record)
    best = next((row for row in found if row.is_finished and row.mean is not None), None)
    if best is None:
        return None
    compared = [best, *(row for row in found if row is not best and row.mean is not None)]
    metric = METRIC_TABLE.get(record.metric)
    files = [[predictions_file(root / STATE / name, trial.number) for trial in row.trials] for row in compared]
    if metric is None or not metric.of_predictions or not all(file.exists() for seeds in files for file in seeds):
        return Winner(best, best.trials[0], None, len(compared))
    tables = [[read_table(file, ["label", "prediction"]) for file in seeds] for seeds in files]
    labels, schema = tables[0][0]["label"].to_numpy(), LabelSchema.of(tables[0][0].schema, "label")
    predictions = [[table["prediction"].to_numpy() for table in seeds] for seeds in tables]
    chosen = select_best(metric, labels, predictions, average=averaging(schema, None))
    return Winner(best, best.trials[0], chosen, len(compared), tuple(compared[index] for index in chosen.indistinguishable))


def verdict(won: Winner | None, record: SweepRecord, name: str) -> str:
    """Return what came of a sweep, in sentences."""
    failed = sum(trial.error is not None for trial in record.trials)
    failures = f" {failed} of {len(record.trials)} trials failed." if failed else ""
    if won is None:
        return f"No configuration is trained to the end.{failures}"
    spread = f" ± {won.row.spread:.3f} over {len(won.row.trials)} seeds" if won.row.spread is not None else ""
    sentences = [f"Best of {won.candidates} on validation: {name}-{won.trial.number} ({describe(won.row.values)}), {record.metric}"]
    sentences[0] += f" {won.row.mean:.3f}{spread}.{failures}"
    if won.selection is not None:
        chosen = won.selection
        sentences.append(
            f"On new rows, {chosen.corrected:.3f} ({chosen.low:.3f} to {chosen.high:.3f}) is to be expected: "
            "corrected for the choice of the best."
        )
        if won.same:
            more = f" and {len(won.same) - 5} more" if len(won.same) > 5 else ""
            others = ", ".join(f"{name}-{row.trials[0].number}" for row in won.same[:5]) + more
            sentences.append(f"Not distinguishable from it on these rows: {others}.")
    return "\n".join(sentences)


def describe(values: Values) -> str:
    """Return parameters in one line, without their section."""
    return ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in values.items())


def find_winner(root: Path, name: str) -> Winner:
    """Return the best configuration of a sweep that has run; a ``StageError`` if there is none."""
    record = SweepRecord.read_if_exists(root / STATE / name / "record.json")
    if record is None:
        raise StageError(f"There is no sweep {name} here.", f"Run it: tuneline sweep conf/sweep/{name}.yaml")
    won = winner(root, name, record)
    if won is None:
        raise StageError(f"No configuration of sweep {name} is trained to the end.", f"Go on: tuneline sweep conf/sweep/{name}.yaml")
    return won
