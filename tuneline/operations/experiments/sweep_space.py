"""A sweep's file, ``conf/sweep/NAME.yaml``, and the configurations that are drawn from it."""

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from tuneline.core.params.loading import known_keys, read_yaml, suggestion, validated
from tuneline.core.params.params_file import write
from tuneline.core.params.section import Positive, Section
from tuneline.core.paths import FIRST_SWEEP
from tuneline.core.runtime.errors import ParamsError

FOLDER = Path("conf/sweep")
Values = Mapping[str, Any]
"""Parameters by dotted key."""


class Drawn(Section):
    """A parameter that is varied: one of some values, or a number between two ends.

    Two integers give integers, and other numbers have four digits.
    """

    choice: list[Any] = []
    low: int | float = 0
    high: int | float = 0
    log: bool = False
    """Draw the logarithm evenly, for values of several magnitudes such as a learning rate."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if bool(self.choice) == (self.low < self.high):
            raise ValueError("write {choice: [...]}, or {low: ..., high: ...} with low less than high")
        if self.log and self.low <= 0 and not self.choice:
            raise ValueError("low: must be more than 0 with log")
        return self

    def at(self, place: float) -> Any:
        """Return the value at a place from 0 to 1."""
        if self.choice:
            return self.choice[int(place * len(self.choice))]
        if self.log:
            value = math.exp(math.log(self.low) + place * (math.log(self.high) - math.log(self.low)))
        else:
            value = self.low + place * (self.high - self.low)
        if isinstance(self.low, int) and isinstance(self.high, int):
            return round(value)
        return float(f"{value:.4g}")


class Halving(Section):
    """Successive halving: all are trained for a few steps, and only the best go on, several times."""

    factor: Annotated[int, Field(ge=2)] = 3
    """One of so many configurations goes on, for so many times the steps."""
    first_steps: Positive
    """Optimizer steps of the first trainings."""


class Sweep(Section):
    """A file ``conf/sweep/NAME.yaml``."""

    parameters: Annotated[dict[str, Drawn], Field(min_length=1)]
    """What is varied, by dotted key."""
    trials: Positive | None = None
    """Configurations to draw; ``null``: all combinations of the choices."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the draws."""
    halving: Halving | None = None
    """``null``: every configuration is trained to the end."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file; a ``ParamsError`` names what is wrong."""
        if not path.is_file():
            files = ", ".join(map(str, sorted(FOLDER.glob("*.yaml")))) or "none; docs/sweeps.md describes one"
            raise ParamsError(f"{path} does not exist.", f"Sweeps in {FOLDER}: {files}.")
        sweep = validated(cls, read_yaml(path), path)
        known = list(known_keys(optional=True))
        for key in sweep.parameters:
            if key not in known and not key.startswith("model.config."):
                raise ParamsError(f"{path}: {key}: unknown key{suggestion(key, known)}")
        return sweep

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for key, drawn in self.parameters.items():
            if key == "seed" or key.startswith("data."):
                raise ValueError(
                    f"parameters.{key}: it changes the rows on which all are compared; train.seed does not"
                )
            if self.trials is None and not drawn.choice:
                raise ValueError(f"parameters.{key}: without `trials`, it needs {{choice: [...]}}")
        return self

    def configurations(self) -> list[Values]:
        """Return all combinations, or draws that are spread evenly (a Latin hypercube); each only once."""
        names = list(self.parameters)
        rows: list[tuple[Any, ...]] = []
        if self.trials is None:
            rows = list(itertools.product(*(drawn.choice for drawn in self.parameters.values())))
        else:
            from scipy.stats import qmc

            for places in qmc.LatinHypercube(len(names), rng=self.seed).random(self.trials).tolist():
                pairs = zip(self.parameters.values(), places, strict=True)
                rows.append(tuple(drawn.at(place) for drawn, place in pairs))
        distinct = {repr(row): row for row in rows}
        return [dict(zip(names, row, strict=True)) for row in distinct.values()]


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
        "trials: 9",
        f"halving: {{factor: 3, first_steps: {max(1, steps // 9)}}}",
    )
    write(path, "\n".join(lines) + "\n")
    return path
