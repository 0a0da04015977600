"""How far a run has come, and all that it must remember to go on: plain numbers, kept in every checkpoint as JSON."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self


@dataclass
class Progress:
    """The state of a run that is neither weights nor optimizer.

    Epoch and place in the epoch follow from ``step``, because the order of examples is a function of (seed, epoch).

    Attributes:
        step: Groups seen, which is optimizer steps done (a step that fp16 skipped counts too).
        losses: Losses of the steps since the last logged one.
        logged: Rows of the training curve: step, loss (mean since the row before), learning rate, gradient norm.
        evaluated: Rows of the validation curve: step, loss, metric.
        best_step: Step of the best evaluation; 0 before the first.
        best_metric: Its metric.
        without_gain: Evaluations since the last gain, for early stopping.
        stopped_early: Whether early stopping ended the run.
    """

    step: int = 0
    losses: list[float] = field(default_factory=list)
    logged: list[tuple[int, float, float, float]] = field(default_factory=list)
    evaluated: list[tuple[int, float, float]] = field(default_factory=list)
    best_step: int = 0
    best_metric: float = -1e300
    without_gain: int = 0
    stopped_early: bool = False

    def write(self, path: Path) -> None:
        """Writes all of it. Numbers come back exactly (JSON keeps the shortest decimal that gives the same float)."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads what ``write`` wrote."""
        values = json.loads(path.read_text(encoding="utf-8"))
        values["logged"] = [tuple(row) for row in values["logged"]]
        values["evaluated"] = [tuple(row) for row in values["evaluated"]]
        return cls(**values)

    def evaluated_now(self, loss: float, metric: float, min_gain: float) -> bool:
        """Notes an evaluation after the current step. Returns whether it is the best so far.

        For early stopping a gain must exceed ``min_gain`` over the best; for keeping the best any gain will do.
        """
        self.evaluated.append((self.step, loss, metric))
        gained = metric > self.best_metric + min_gain
        self.without_gain = 0 if gained else self.without_gain + 1
        if metric <= self.best_metric:
            return False
        self.best_step, self.best_metric = self.step, metric
        return True
