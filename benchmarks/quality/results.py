"""The lines of a measurement, one for each model on one sample, and their table."""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.quality.rivals import FROZEN, RIVALS
from tuneline.judge.metrics.stats import paired_difference
from tuneline.judge.metrics.table import METRIC_TABLE
from tuneline.model.tasks.task import Labels

WIDTH = 200
"""Columns of the table, also where it goes to a file."""

Line = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One model on one sample of a data set."""

    data: str
    rows: int
    seed: int
    model: str

    def __str__(self) -> str:
        return f"{self.data}-{self.rows}-{self.seed}-{self.model}"


class Results:
    """The lines in ``runs.jsonl`` of a folder, and the predictions beside it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "runs.jsonl"
        self._predictions = folder / "predictions"
        self._predictions.mkdir(parents=True, exist_ok=True)

    def lines(self) -> dict[Run, Line]:
        """Return the lines by run, in the order in which they were written."""
        lines = {}
        if self._path.exists():
            for text in self._path.read_text(encoding="utf-8").splitlines():
                line = json.loads(text)
                lines[Run(line["data"], line["rows"], line["seed"], line["model"])] = line
        return lines

    def has(self, run: Run) -> bool:
        """Return True if a run was measured, also by another process."""
        return run in self.lines()

    def append(
        self, run: Run, scores: Mapping[str, float], seconds: float, labels: Labels, predicted: Labels
    ) -> None:
        """Save the labels and predictions of the fresh rows, and then the line."""
        np.savez_compressed(self._predictions / f"{run}.npz", labels=labels, predicted=predicted)
        rounded = {name: round(score, 4) for name, score in scores.items()}
        line = json.dumps({**asdict(run), "scores": rounded, "processor_seconds": round(seconds, 1)})
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        print(line, flush=True)

    def comparisons(self, ours: str) -> Iterator["Comparison"]:
        """Yield the lines of the table; a rival counts where it has every sample that ours has."""
        lines = self.lines()
        for data, rows in dict.fromkeys((run.data, run.rows) for run in lines):
            samples = [run for run in lines if (run.data, run.rows, run.model) == (data, rows, ours)]
            measured = {}
            for model in (*RIVALS, ours):
                runs = [replace(run, model=model) for run in samples]
                if runs and all(run in lines for run in runs):
                    measured[model] = [lines[run] for run in runs]
            if len(measured) > 1:
                for metric in lines[samples[0]]["scores"]:
                    yield Comparison(metric, samples, measured)

    def show(self, ours: str) -> None:
        """Print the scores and seconds of each model, and how much better ours is than two of them."""
        title = f"means over the seeds, seconds of processor; {ours} beside rivals"
        table = Table("data", "seeds", *RIVALS, ours, "beside the best", f"beside {FROZEN}", title=title)
        gains = []
        for comparison in self.comparisons(ours):
            run = comparison.samples[0]
            best = comparison.best_rival
            gains.append(comparison.score(ours) - comparison.score(best))
            beside_frozen = ""
            if FROZEN in comparison.measured:
                beside_frozen = self._difference(comparison, FROZEN)
            table.add_row(
                f"{run.data}, {run.rows:,}, {comparison.metric}",
                str(len(comparison.samples)),
                *(comparison.cell(model) for model in (*RIVALS, ours)),
                f"{best}: {self._difference(comparison, best)}",
                beside_frozen,
            )
        if gains:
            table.caption = f"{ours} beside the best rival, mean of the lines: {statistics.mean(gains):+.4f}"
        Console(width=WIDTH).print(table)

    def _difference(self, comparison: "Comparison", rival: str) -> str:
        """Return the paired difference from a rival on the fresh rows of all samples, with its interval.

        A fresh row is one cluster: it is in every sample.
        """
        labels = []
        ours = []
        theirs = []
        for run in comparison.samples:
            saved = np.load(self._predictions / f"{run}.npz")
            labels.append(saved["labels"])
            ours.append(saved["predicted"])
            theirs.append(np.load(self._predictions / f"{replace(run, model=rival)}.npz")["predicted"])
        difference = paired_difference(
            METRIC_TABLE[comparison.metric],
            np.concatenate(labels),
            np.concatenate(ours),
            np.concatenate(theirs),
            clusters=np.tile(np.arange(len(labels[0])), len(labels)),
        )
        return f"{difference.value:+.3f} ({difference.low:+.3f} to {difference.high:+.3f})"


@dataclass(frozen=True)
class Comparison:
    """The models on all samples of one size, by one metric.

    Attributes:
        samples: The runs of our model.
        measured: The lines of each model, in the order of the samples; ours is the last one.
    """

    metric: str
    samples: Sequence[Run]
    measured: Mapping[str, Sequence[Line]]

    def score(self, model: str) -> float:
        """Return the mean over the samples."""
        return statistics.mean(line["scores"][self.metric] for line in self.measured[model])

    @property
    def best_rival(self) -> str:
        """The rival with the highest mean."""
        return max((model for model in self.measured if model in RIVALS), key=self.score)

    def cell(self, model: str) -> str:
        """Return the score and seconds of a model; nothing where a sample is missing."""
        if model not in self.measured:
            return ""
        seconds = statistics.mean(line["processor_seconds"] for line in self.measured[model])
        return f"{self.score(model):.3f}, {seconds:.0f} s"
