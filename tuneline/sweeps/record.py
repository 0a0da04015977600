"""The record of a sweep: what was drawn and what came of it, and from both what is to be done next.

``.dvc/tmp/sweeps/NAME/record.json`` is the only truth, and one process writes it, after every event. What is
to be done next is a function of it, so a sweep that was killed goes on where it was. Halving is synchronous:
who goes on is decided when all have reached a rung. So the result depends neither on the number of workers
nor on their timing.

Sources: Jamieson & Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization",
AISTATS 2016 (successive halving); Li, Jamieson, DeSalvo, Rostamizadeh & Talwalkar, "Hyperband", JMLR 18,
2018, of which this is one bracket.
"""

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tuneline.core.errors import StageError
from tuneline.core.records import Record
from tuneline.sweeps.space import SEED_KEY, Sweep, Values

SWEEP_STATE = Path(".dvc/tmp/sweeps")
SAME_ERRORS = 3
"""Configurations, the first of a sweep, that stop it if all of them fail with the same error."""


class Trial(Record):
    """One training: a configuration with one seed.

    Attributes:
        number: From 1; the experiment is ``SWEEP-NUMBER``.
        configuration: Index of the configuration.
        parameters: What differs from ``params.yaml``, by dotted key.
        rungs: Best validation metric so far at each rung that it has reached.
        steps: Optimizer steps so far, of ``total_steps``.
        metric: Validation metric of the trained model; ``None`` until it is trained to the end.
        latency_ms: The second objective.
        error: Why it failed.
        seconds: Time it has taken.
    """

    number: int
    configuration: int
    parameters: Mapping[str, Any]
    rungs: Sequence[float] = ()
    steps: int = 0
    total_steps: int | None = None
    metric: float | None = None
    latency_ms: float | None = None
    error: str | None = None
    seconds: float = 0.0

    @property
    def is_finished(self) -> bool:
        """True if it is trained to the end."""
        return self.metric is not None

    def score(self, rung: int | None = None) -> float | None:
        """Return the metric at a rung, by default that of its last step; ``None`` if it has not come so far, or has failed."""
        if self.error is not None:
            return None
        if rung is None:
            return self.metric if self.is_finished else next(reversed(self.rungs), None)
        return self.rungs[rung] if rung < len(self.rungs) else self.metric


@dataclass(frozen=True)
class Configuration:
    """The trials of one configuration, one for each seed."""

    trials: Sequence[Trial]

    @property
    def number(self) -> int:
        """Number of its first trial, by which it is named."""
        return self.trials[0].number

    @property
    def values(self) -> Values:
        """Its parameters, without the seed."""
        return {key: value for key, value in self.trials[0].parameters.items() if key != SEED_KEY}

    @property
    def is_finished(self) -> bool:
        """True if all seeds are trained to the end."""
        return all(trial.is_finished for trial in self.trials)

    @property
    def error(self) -> str | None:
        """Why one of its trials failed."""
        return next((trial.error for trial in self.trials if trial.error), None)

    @property
    def steps(self) -> int:
        """Optimizer steps that every seed has."""
        return min(trial.steps for trial in self.trials)

    @property
    def state(self) -> str:
        """How far it came, in words."""
        if self.error or self.is_finished:
            return f"failed: {self.error}" if self.error else "trained"
        return f"step {self.steps} of {self.trials[0].total_steps}" if self.steps else "waits"

    def scores(self, rung: int | None = None) -> list[float]:
        """Return the metric of each seed, as ``Trial.score`` does; empty if one has none."""
        scores = [score for trial in self.trials if (score := trial.score(rung)) is not None]
        return scores if len(scores) == len(self.trials) else []

    def mean(self, rung: int | None = None) -> float | None:
        """Return the mean metric of the seeds; ``None`` if one has none."""
        scores = self.scores(rung)
        return statistics.fmean(scores) if scores else None

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds; ``None`` for a single one."""
        scores = self.scores()
        return statistics.stdev(scores) if len(scores) > 1 else None

    @property
    def latency_ms(self) -> float | None:
        """Mean of the second objective; ``None`` if it was not measured for every seed."""
        known = [trial.latency_ms for trial in self.trials if trial.latency_ms is not None]
        return statistics.fmean(known) if len(known) == len(self.trials) else None


def predictions_file(folder: Path, number: int) -> Path:
    """Return the validation predictions of a trial of the sweep in that folder, as far as it was trained."""
    return folder / "predictions" / f"{number}.parquet"


class SweepRecord(Record):
    """A sweep.

    Attributes:
        sweep: Content of its file.
        inputs: Git tree of code, data and parameters on which all trials are based.
        params: ``params.yaml`` with the values that all trials have.
        metric: Name of the validation metric.
        threads: Threads of each training, which decide how sums are rounded: they stay the same with another
            number of workers.
        exhausted: True if the space has no other configuration, or the hours are over.
    """

    sweep: Mapping[str, Any]
    inputs: str
    params: str
    metric: str
    greater_is_better: bool
    threads: int
    trials: Sequence[Trial] = ()
    exhausted: bool = False

    def with_trial(self, trial: Trial) -> "SweepRecord":
        """Return the record with another state of a trial."""
        return self.model_copy(
            update={"trials": tuple(trial if one.number == trial.number else one for one in self.trials)}
        )

    def with_draws(self, draws: Sequence[Values], seeds: Sequence[int | None]) -> "SweepRecord":
        """Return the record with further configurations, each with every seed."""
        first = len(self.configurations())
        drawn = [(first + index, values, seed) for index, values in enumerate(draws) for seed in seeds]
        trials = (
            Trial(
                number=len(self.trials) + position,
                configuration=index,
                parameters={**values, **({} if seed is None else {SEED_KEY: seed})},
            )
            for position, (index, values, seed) in enumerate(drawn, start=1)
        )
        return self.model_copy(update={"trials": (*self.trials, *trials)})

    def configurations(self) -> list[Configuration]:
        """Return the configurations, in the order in which they were drawn."""
        found: dict[int, list[Trial]] = {}
        for trial in self.trials:
            found.setdefault(trial.configuration, []).append(trial)
        return [Configuration(trials) for trials in found.values()]

    @property
    def sign(self) -> int:
        """What makes a better metric the greater one."""
        return 1 if self.greater_is_better else -1


class TrainingTask(NamedTuple):
    """What a worker does next: train a trial up to a step, or to the end (``None``)."""

    trial: Trial
    pause: int | None


def next_tasks(sweep: Sweep, record: SweepRecord, *, drawing: bool = False) -> list[TrainingTask]:
    """Return what can be done now, in any order; empty if the sweep is finished.

    While ``drawing``, nobody goes on to the second rung.
    """
    return _next(sweep, record, drawing=drawing)[1]


def left_behind(sweep: Sweep, record: SweepRecord) -> list[Trial]:
    """Return the trials that halving has stopped."""
    alive = {
        trial.number
        for configuration in _next(sweep, record, drawing=False)[0]
        for trial in configuration.trials
    }
    return [trial for trial in record.trials if trial.number not in alive and not trial.is_finished]


def _next(
    sweep: Sweep, record: SweepRecord, *, drawing: bool
) -> tuple[Sequence[Configuration], list[TrainingTask]]:
    """Return the configurations that are in the race, and what can be done now."""
    alive, rung = record.configurations(), 0
    while True:
        pause = None
        if sweep.halving and (drawing or len(alive) > 1):
            pause = sweep.halving.first_steps * sweep.halving.factor**rung
        trials = (
            trial
            for configuration in alive
            for trial in configuration.trials
            if not trial.error and not trial.is_finished
        )
        waiting = [trial for trial in trials if pause is None or len(trial.rungs) <= rung]
        if waiting or not sweep.halving or drawing or len(alive) <= 1:
            # a trial of so few steps that the rung is its end has no pause
            return alive, [
                TrainingTask(trial, None if pause and (trial.total_steps or pause + 1) <= pause else pause)
                for trial in waiting
            ]
        reached = [one for one in alive if one.scores(rung)]
        reached.sort(key=lambda one: (-record.sign * statistics.fmean(one.scores(rung)), one.number))
        alive, rung = reached[: max(1, len(alive) // sweep.halving.factor)], rung + 1


def check_errors(record: SweepRecord) -> None:
    """Stop a sweep whose first configurations all failed with the same error: which have failed does not depend on the workers."""
    configurations = record.configurations()
    first = [trial for configuration in configurations[:SAME_ERRORS] for trial in configuration.trials]
    errors = [trial.error for trial in first if trial.error]
    same = len(errors) == len(first) and len({re.sub(r"[\d.,]+", "#", error) for error in errors}) == 1
    if same and len(configurations) >= SAME_ERRORS:
        raise StageError(
            f"All of the first {len(first)} trials failed in the same way: {errors[0]}",
            "Correct this, then add --restart.",
        )
