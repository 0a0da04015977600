"""A sweep's file, ``conf/sweep/NAME.yaml``, and the configurations that are drawn from it.

What is drawn depends on the file alone, and with ``tpe`` on the metrics of earlier configurations: a sweep
that was killed draws the same.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field, ValidationError, model_validator

from tuneline.core.yaml_files import read_yaml
from tuneline.params.loading import describe_problem
from tuneline.params.params_file import write
from tuneline.params.section import Positive, PositiveFloat, Section
from tuneline.paths import FIRST_SWEEP
from tuneline.runtime.errors import ParamsError

FOLDER = Path("conf/sweep")
SEED_KEY = "train.seed"
"""Parameter whose values are no choice: every configuration is trained with each of them."""
LATENCY = "int8_latency_ms"
"""Objective: median latency of the int8 model, one row at a time on one core."""
Values = Mapping[str, Any]
"""Parameters by dotted key."""
SHAPES = "A parameter is {choice: [...]} or {low: ..., high: ...}, with `log`, `step`, `when`."
_ATTEMPTS = 100
"""Draws in a row that give a configuration that was drawn before, after which a space counts as exhausted."""


class Choice(Section):
    """A parameter that takes one of some values."""

    choice: Annotated[list[Any], Field(min_length=1)]
    when: dict[str, Any] = {}
    """Values that parameters above must have, else this one stays as it is in ``params.yaml``.

    A list: one of them.
    """

    def values(self, key: str) -> list[Any]:  # noqa: ARG002 - as Range
        """Return all values."""
        return self.choice

    def suggest(self, trial: Any, key: str) -> Any:
        """Let a trial of Optuna choose. It chooses an index, because a value may be a list."""
        return self.choice[trial.suggest_categorical(key, list(range(len(self.choice))))]

    def stored(self, value: Any) -> Any:
        """Return what Optuna stores for a value."""
        return self.choice.index(value)


class Range(Section):
    """A parameter with a number between two ends, which are in the range; of four digits.

    Two integers: an integer.
    """

    low: int | float
    high: int | float
    log: bool = False
    """Draw the logarithm evenly, for values of several magnitudes such as a learning rate."""
    step: int | float | None = None
    when: dict[str, Any] = {}
    """As in a choice."""

    @property
    def _integer(self) -> bool:
        return all(isinstance(value, int) for value in (self.low, self.high, self.step or 0))

    def values(self, key: str) -> list[Any]:
        """Return all values, for a grid."""
        step = self.step
        if step is None and self._integer and not self.log:
            step = 1
        if step is None:
            raise ValueError(
                f"parameters.{key}: a grid needs a `step` without `log`, or the values: {{choice: [...]}}"
            )
        # 0.3 / 0.1 is a bit less than 3
        steps = int((self.high - self.low) / step + 1e-9)
        return [self.low + number * step for number in range(steps + 1)]

    def suggest(self, trial: Any, key: str) -> Any:
        """Let a trial of Optuna draw a number."""
        if self._integer:
            return trial.suggest_int(key, self.low, self.high, step=self.step or 1, log=self.log)
        drawn = trial.suggest_float(key, self.low, self.high, step=self.step, log=self.log)
        rounded = float(f"{drawn:.4g}")
        return min(max(rounded, self.low), self.high)

    def stored(self, value: Any) -> Any:
        """Return what Optuna stores for a value."""
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.low < self.high or (self.log and self.low <= 0):
            raise ValueError("low: must be less than high, and more than 0 with log")
        if self.log and self.step is not None:
            raise ValueError("step: has no meaning with log; leave one of them out")
        return self


class Halving(Section):
    """Successive halving: all are trained for a few steps, and only the best go on, several times."""

    factor: Annotated[int, Field(ge=2)] = 3
    """One of so many configurations goes on, for so many times the steps."""
    first_steps: Positive
    """Optimizer steps after which configurations are compared first."""


class Sweep(Section):
    """A file ``conf/sweep/NAME.yaml``."""

    parameters: Annotated[dict[str, Choice | Range], Field(min_length=1)]
    """What is varied, by dotted key.

    ``train.seed: {choice: [...]}``: each configuration is trained with every one of these seeds.
    """
    sampler: Literal["random", "quasi-random", "tpe", "grid"] = "random"
    """How configurations are drawn.

    ``quasi-random``: Sobol points. ``tpe``: where earlier ones were good. ``grid``: all of them.
    """
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the draws."""
    trials: Positive | None = None
    """Configurations to draw. ``grid`` needs none."""
    hours: PositiveFloat | None = None
    """No configuration is begun when the sweep has trained for so long. ``null``: no limit."""
    halving: Halving | None = None
    """``null``: every configuration is trained to the end."""
    objectives: list[str] | None = None
    """``null``: the metric that ``train.metric`` names. Beside it, ``int8_latency_ms``."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file; a ``ParamsError`` names the keys that are wrong."""
        if not path.is_file():
            # the project, where the file is in its folder conf/sweep
            root = path.parents[2] if len(path.parents) > 2 else Path()
            raise ParamsError(f"{path} does not exist.", f"There {known_sweeps(root)}.")
        try:
            return cls.model_validate(read_yaml(path))
        except ValidationError as error:
            lines = [f"{path}:"]
            for problem in error.errors():
                # of a parameter that is neither a choice nor a range, every key would be named for both
                is_of_other_shape = problem["type"] == "extra_forbidden" and "parameters" in problem["loc"]
                if not is_of_other_shape:
                    lines.append(describe_problem(problem, cls))
            hint = SHAPES if any("parameters" in line for line in lines[1:]) else None
            raise ParamsError("\n  ".join(lines), hint) from None

    @property
    def seeds(self) -> list[int | None]:
        """Seeds with which each configuration is trained; ``None``: the one of ``params.yaml``."""
        seeds = self.parameters.get(SEED_KEY)
        return seeds.values(SEED_KEY) if seeds else [None]

    @property
    def varied(self) -> dict[str, Choice | Range]:
        """The parameters without the seed."""
        return {key: values for key, values in self.parameters.items() if key != SEED_KEY}

    @property
    def measures_latency(self) -> bool:
        """True if the latency is an objective."""
        return LATENCY in (self.objectives or [])

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        above: set[str] = set()
        for key, values in self.parameters.items():
            if key == "seed" or key.startswith("data."):
                hint = f"vary {SEED_KEY}" if key == "seed" else "use another sweep for other data"
                raise ValueError(
                    f"parameters.{key}: it changes the rows, on which all trials are compared; {hint}"
                )
            for condition in values.when:
                if condition not in above:
                    raise ValueError(f"parameters.{key}.when: {condition} is none of the parameters above it")
            if self.sampler == "grid" or key == SEED_KEY:
                values.values(key)  # raises if it has no end
            above.add(key)

        if self.sampler != "grid" and self.trials is None:
            raise ValueError("trials: give the number of configurations to draw")
        if self.measures_latency and self.halving:
            raise ValueError(
                f"halving: set it to null; {LATENCY} is known only of a trial that is trained to the end"
            )
        if self.objectives and (self.objectives[0] == LATENCY or set(self.objectives[1:]) - {LATENCY}):
            raise ValueError(
                f"objectives: [METRIC] or [METRIC, {LATENCY}], where METRIC is that of train.metric"
            )
        return self


def with_seed(values: Values, seed: int | None) -> Values:
    """Return parameters with a seed; ``None``: with the one of ``params.yaml``."""
    return values if seed is None else {**values, SEED_KEY: seed}


def known_sweeps(root: Path = Path()) -> str:
    """Return which sweeps a project has, in words."""
    files = [str(path.relative_to(root)) for path in sorted((root / FOLDER).glob("*.yaml"))]
    if files:
        return f"is {', '.join(files)}"
    return f"is no file in {FOLDER}; `tuneline init` writes one, and docs/sweeps.md describes it"


def write_first(learning_rate: float, steps: int) -> Path | None:
    """Write a sweep around a recipe of so many optimizer steps, and return its file.

    It is ``None`` if there is one already.
    """
    path = FIRST_SWEEP
    if path.exists():
        return None
    lines = (
        "# tuneline sweep conf/sweep/first.yaml    docs/sweeps.md",
        "parameters:",
        f"  train.learning_rate: {{low: {learning_rate / 4:.1e}, high: {learning_rate * 4:.1e}, log: true}}",
        "  train.warmup_ratio: {choice: [0.0, 0.1]}",
        "  train.weight_decay: {choice: [0.0, 0.01, 0.1]}",
        "sampler: random                           # or quasi-random, tpe, grid",
        "trials: 9",
        f"halving: {{factor: 3, first_steps: {max(1, steps // 9)}}}",
    )
    write(path, "\n".join(lines) + "\n")
    return path


def all_draws(sweep: Sweep) -> list[Values]:
    """Return the configurations of a sampler that does not look at results: every one, without repetition."""
    if sweep.sampler == "grid":
        return list(_grid(sweep.varied, {}))[: sweep.trials]
    import optuna

    _quiet(optuna)
    sampler: Any = optuna.samplers.RandomSampler(seed=sweep.seed)
    if sweep.sampler == "quasi-random":
        sampler = optuna.samplers.QMCSampler(seed=sweep.seed, scramble=True, warn_independent_sampling=False)
    study = optuna.create_study(sampler=sampler)
    draws: dict[str, Values] = {}
    for _ in range(_ATTEMPTS * (sweep.trials or 0)):
        trial = study.ask()
        values = _suggest(trial, sweep.varied)
        study.tell(trial, 0.0)  # a Sobol sequence needs the end of the trial before, whatever its result
        draws.setdefault(_key(values), values)
        if len(draws) == sweep.trials:
            break
    return list(draws.values())


def next_draw(
    sweep: Sweep,
    drawn: Sequence[Values],
    results: Sequence[Sequence[float] | None],
    directions: Sequence[str],
) -> Values | None:
    """Return the next configuration of ``tpe``; ``None`` if the space has no other one.

    ``results`` are the objectives of the configurations that were drawn: empty if it failed, ``None`` while
    it is trained. The generator is seeded by the sweep's seed and the number of the draw, so the same results
    give the same draw.
    """
    import numpy as np
    import optuna

    _quiet(optuna)
    earlier = {_key(values) for values in drawn}
    random_draws = min(10, max(3, (sweep.trials or 0) // 3))
    for attempt in range(_ATTEMPTS):
        seed = int(np.random.SeedSequence((sweep.seed, len(drawn), attempt)).generate_state(1)[0])
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=random_draws, constant_liar=True)
        study = optuna.create_study(sampler=sampler, directions=cast("Any", directions))

        # tell the study what was drawn, and what came of it
        for values, result in zip(drawn, results, strict=True):
            study.enqueue_trial({key: sweep.varied[key].stored(value) for key, value in values.items()})
            trial = study.ask()
            _suggest(trial, sweep.varied)
            if result:
                study.tell(trial, list(result))
            elif result is not None:
                study.tell(trial, None, state=optuna.trial.TrialState.FAIL)

        values = _suggest(study.ask(), sweep.varied)
        if _key(values) not in earlier:
            return values
    return None


def _suggest(trial: Any, parameters: Mapping[str, Choice | Range]) -> Values:
    values: dict[str, Any] = {}
    for key, parameter in parameters.items():
        if _applies(parameter, values):
            values[key] = parameter.suggest(trial, key)
    return values


def _applies(parameter: Choice | Range, values: Values) -> bool:
    for key, required in parameter.when.items():
        allowed = required if isinstance(required, list) else [required]
        if values.get(key) not in allowed:
            return False
    return True


def _grid(parameters: Mapping[str, Choice | Range], values: dict[str, Any]) -> Iterator[Values]:
    """Yield every configuration, the last parameter changing fastest."""
    if not parameters:
        yield values
        return
    key = next(iter(parameters))
    parameter = parameters[key]
    rest = {name: parameters[name] for name in parameters if name != key}
    if not _applies(parameter, values):
        yield from _grid(rest, values)
        return
    for value in parameter.values(key):
        yield from _grid(rest, {**values, key: value})


def _key(values: Values) -> str:
    return json.dumps(values, sort_keys=True, default=str)


def _quiet(optuna: Any) -> None:
    import warnings

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
