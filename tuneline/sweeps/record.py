"""The record of a sweep: what was drawn and what came of it, and from both what is to be done next.

``.dvc/tmp/sweeps/NAME/record.json`` is the only truth, and one process writes it, after every event. What is
to be done next is a function of it, so a sweep that was killed goes on where it was. Halving is synchronous:
who goes on is decided when all have reached a rung. So the result depends neither on the number of workers
nor on their timing.

Optuna draws (``space.py``), but neither stores nor prunes. Its pruner decides for each trial when that
reaches a rung, by those that were faster; and a trial that was running when its process was killed counts as
running for ever in a journal, where ours resumes from its checkpoint.

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

from tuneline.core.records import Record
from tuneline.runtime.errors import StageError
from tuneline.sweeps.space import SEED_KEY, Sweep, Values, with_seed

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
        """Return the metric at a rung, by default the one of its last step.

        It is ``None`` if the trial has not come so far, or has failed.
        """
        if self.error is not None:
            return None
        if rung is not None:
            # a trial whose end comes before the rung has its last metric there
            return self.rungs[rung] if rung < len(self.rungs) else self.metric
        if self.is_finished:
            return self.metric
        return self.rungs[-1] if self.rungs else None


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
        for trial in self.trials:
            if trial.error:
                return trial.error
        return None

    @property
    def steps(self) -> int:
        """Optimizer steps that every seed has."""
        return min(trial.steps for trial in self.trials)

    @property
    def state(self) -> str:
        """How far it came, in words."""
        if self.error:
            return f"failed: {self.error}"
        if self.is_finished:
            return "trained"
        if not self.steps:
            return "waits"
        return f"step {self.steps} of {self.trials[0].total_steps}"

    def scores(self, rung: int | None = None) -> list[float]:
        """Return the metric of each seed, as ``Trial.score`` does; empty if one has none."""
        scores = []
        for trial in self.trials:
            score = trial.score(rung)
            if score is None:
                return []
            scores.append(score)
        return scores

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
        measured = [trial.latency_ms for trial in self.trials if trial.latency_ms is not None]
        return statistics.fmean(measured) if len(measured) == len(self.trials) else None


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
        trials = [trial if earlier.number == trial.number else earlier for earlier in self.trials]
        return self.model_copy(update={"trials": tuple(trials)})

    def with_draws(self, draws: Sequence[Values], seeds: Sequence[int | None]) -> "SweepRecord":
        """Return the record with further configurations, each with every seed."""
        trials = list(self.trials)
        for index, values in enumerate(draws, start=len(self.configurations())):
            for seed in seeds:
                parameters = with_seed(values, seed)
                trials.append(Trial(number=len(trials) + 1, configuration=index, parameters=parameters))
        return self.model_copy(update={"trials": tuple(trials)})

    def configurations(self) -> list[Configuration]:
        """Return the configurations, in the order in which they were drawn."""
        trials_by_index: dict[int, list[Trial]] = {}
        for trial in self.trials:
            trials_by_index.setdefault(trial.configuration, []).append(trial)
        return [Configuration(trials) for trials in trials_by_index.values()]

    @property
    def sign(self) -> int:
        """Factor that makes the better of two metrics the greater one."""
        return 1 if self.greater_is_better else -1


class TrainingTask(NamedTuple):
    """What a worker does next: train a trial up to the step ``pause``, or to the end (``None``)."""

    trial: Trial
    pause: int | None


def next_tasks(sweep: Sweep, record: SweepRecord, *, drawing: bool = False) -> list[TrainingTask]:
    """Return what can be done now, in any order; empty if the sweep is finished.

    While ``drawing``, nobody goes on to the second rung.
    """
    return _race(sweep, record, drawing=drawing)[1]


def left_behind(sweep: Sweep, record: SweepRecord) -> list[Trial]:
    """Return the trials that halving has stopped."""
    in_race, _ = _race(sweep, record, drawing=False)
    numbers = {trial.number for configuration in in_race for trial in configuration.trials}
    return [trial for trial in record.trials if trial.number not in numbers and not trial.is_finished]


def _race(
    sweep: Sweep, record: SweepRecord, *, drawing: bool
) -> tuple[Sequence[Configuration], list[TrainingTask]]:
    """Return the configurations that are in the race, and what can be done now."""
    halving = sweep.halving
    in_race = record.configurations()
    rung = 0
    while True:
        goes_on = halving is not None and (drawing or len(in_race) > 1)
        pause = halving.first_steps * halving.factor**rung if halving and goes_on else None

        # the trials that have not reached this rung
        waiting = []
        for configuration in in_race:
            for trial in configuration.trials:
                has_ended = trial.error or trial.is_finished
                if not has_ended and (pause is None or len(trial.rungs) <= rung):
                    waiting.append(trial)
        if waiting or halving is None or drawing or len(in_race) <= 1:
            return in_race, [TrainingTask(trial, _pause_of(trial, pause)) for trial in waiting]

        # all have reached it: the best go on to the next
        reached = [configuration for configuration in in_race if configuration.scores(rung)]
        reached.sort(key=lambda one: (-record.sign * statistics.fmean(one.scores(rung)), one.number))
        in_race = reached[: max(1, len(in_race) // halving.factor)]
        rung += 1


def _pause_of(trial: Trial, pause: int | None) -> int | None:
    """Return the step at which a trial pauses; ``None`` if it has no more steps than that."""
    if pause is not None and trial.total_steps and trial.total_steps <= pause:
        return None
    return pause


def check_errors(record: SweepRecord) -> None:
    """Stop a sweep whose first configurations all failed with the same error.

    It looks at the first ones, so that which have failed does not depend on the workers.
    """
    configurations = record.configurations()
    if len(configurations) < SAME_ERRORS:
        return
    trials = [trial for configuration in configurations[:SAME_ERRORS] for trial in configuration.trials]
    errors = [trial.error for trial in trials if trial.error]

    # numbers, such as the step of a NaN, may differ
    kinds = {re.sub(r"[\d.,]+", "#", error) for error in errors}
    if len(errors) == len(trials) and len(kinds) == 1:
        raise StageError(
            f"All of the first {len(trials)} trials failed in the same way: {errors[0]}",
            "Correct this, then add --restart.",
        )
