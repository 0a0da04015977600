"""Simulate a year of nights, each with a new result.

Measure what they leave, month by month, and whether a night's bookkeeping slows down.

In a repository of the small pipeline of the tests, with an origin and a DVC remote, each night ends as flow
``train`` with ``push`` does: its result is committed, pushed, judged, and promoted every ``PROMOTED`` nights;
every week ends with flow ``clean``, with the default retention. The clocks of this process, of git and of the
files are moved, nothing waits, and there is no server. What does not depend on the nights before is left out:
stages and gate do not run (their outs, of random bytes, are written to DVC's cache, and the decision is
given), and DVC is imported once. Time is that of the processor, of this process and the programs that it
starts. Run ``python -m benchmarks.year`` in the root of the project.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import numpy as np
from prefect.logging import disable_run_logger
from rich.console import Console
from rich.table import Table

from flows.clean import DAY, Cleaning, clean_all
from flows.promotion import outcome
from flows.promotion.gate import PromotionCriterion, PromotionDecision
from flows.promotion.gate import decide_promotion as judge
from flows.promotion.paired_predictions import PairedPredictions
from flows.promotion.registry import Registry
from flows.runs.checkout import Checkout, isolated
from flows.runs.commits import Run
from flows.runs.pipeline import Pipeline
from flows.runs.processes import Programs
from flows.runs.repository import Repository
from tests.dvc_files import add_remote
from tests.flows.conftest import make_toy, sh
from tuneline.repository import dvc, remote
from tuneline.settings import PromotionPolicy, Settings
from tuneline.tasks import Classification

PROMOTED, WEEK, MONTH = 10, 7, 30
SLOWER = 1.5
"""Largest ratio of the time of the last nights to that of the first."""
PREDICTIONS = 50_000
"""Bytes of a result that is not a model."""


def decision(*, promoted: bool) -> PromotionDecision:
    """Return a decision with all its criteria."""
    labels = np.arange(400) % 4
    rows = PairedPredictions(labels, labels, labels * 0, Classification(("a", "b", "c", "d")))
    names = (
        "agreement of the model",
        "logit difference of model.onnx",
        "data checks",
        "size in MB",
        "latency of one row in ms",
    )
    return judge(
        rows, [PromotionCriterion(name, "999", "<= 250", met=promoted) for name in names], PromotionPolicy()
    )


@dataclass
class Year:
    """The repository and its clock.

    Attributes:
        start: Unix time of the first night.
        first: ``dvc.lock`` before it.
        nights: Seconds of each night.
        weeks: Seconds of each cleaning.
    """

    repository: Repository
    weights: int
    start: float
    first: str
    settings: Settings = field(default_factory=Settings)
    nights: list[float] = field(default_factory=list)
    weeks: list[float] = field(default_factory=list)

    @property
    def root(self) -> Path:
        """The clone."""
        return self.repository.root

    @property
    def now(self) -> float:
        """Unix time of the present night."""
        return self.start + len(self.nights) * DAY

    def write_result(self, checkout: Checkout) -> None:
        """Write what the stages of a night leave.

        It is weights and predictions in DVC's cache, an entry of its run cache, lock and metrics.
        """
        night, draw = len(self.nights), np.random.default_rng(len(self.nights))
        listing = [{"md5": self._store(draw.bytes(self.weights)), "relpath": "model.onnx"}]
        model = self._store(json.dumps(listing).encode(), ".dir")
        predictions = self._store(draw.bytes(PREDICTIONS))
        lock = dvc.Lock(self.first)
        text = self.first.replace(str(lock.out("models/onnx")), model)
        (checkout.path / "dvc.lock").write_text(
            text.replace(str(lock.out("reports/predictions.parquet")), predictions)
        )
        (checkout.path / "metrics").mkdir(exist_ok=True)
        (checkout.path / "metrics" / "evaluate.json").write_text(
            json.dumps({"accuracy": 0.8 + night / 10_000})
        )
        entry = dvc.cache_folder(self.root) / "runs" / "aa" / f"aa{night}" / f"{night}"
        entry.parent.mkdir(parents=True)
        entry.write_text(f"cmd: python toy.py launch\nouts:\n- path: models/onnx\n  md5: {model}\n")

    def _store(self, content: bytes, suffix: str = "") -> str:
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest() + suffix
        path = dvc.cache_folder(self.root) / "files" / "md5" / md5[:2] / md5[2:]
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(content)
        path.chmod(0o444)
        return md5

    def live(self) -> None:
        """Live through a night, and the cleaning at the end of a week."""
        began, night = time.time_ns(), len(self.nights)
        os.environ["GIT_COMMITTER_DATE"] = os.environ["GIT_AUTHOR_DATE"] = f"{int(self.now)} +0000"
        run = Run(f"id-{night}", f"night-{night}")
        with (
            patch.object(time, "time", lambda: self.now),
            patch.object(outcome, "gate", lambda *_: decision(promoted=not night % PROMOTED)),
        ):
            with isolated(self.repository, f"{run.name}-0a1b2c3d", "main") as checkout:
                self.write_result(checkout)
                before = processor_seconds()
                self._end(run, checkout)
                taken = processor_seconds() - before
            if night % WEEK == WEEK - 1:
                self._clean()
        self._age(began)
        self.nights.append(taken)

    def _end(self, run: Run, checkout: Checkout) -> None:
        registry = Registry(self.repository, "onnx")
        for version in registry.tags().staged:  # as each run that pushes does at its start
            remote.push(checkout.path, [version.commit])
        pipeline = Pipeline(Programs(checkout.path, checkout.name, locks=[checkout.lock]), lambda _line: None)
        _, version = outcome.finish(
            outcome.EndedRun(run, checkout, pipeline, registry, self.settings, promote=True, push=True)
        )
        if (version is None) != bool(len(self.nights) % PROMOTED):
            sys.exit(f"{run.name} was not judged as its decision says")

    def _clean(self) -> None:
        before, registry = processor_seconds(), Registry(self.repository, "onnx")
        _, problems = clean_all(
            Cleaning(registry, self.settings.retention, self.now, lambda _line: None, push=True),
            self.settings,
        )
        if problems:
            sys.exit("\n".join(problems))
        self.weeks.append(processor_seconds() - before)

    def _age(self, since: int) -> None:
        """Set the times of files that were written since to those of the night."""
        for path in (self.root / ".dvc").rglob("*"):
            if path.is_file() and path.lstat().st_mtime_ns >= since:
                os.utime(path, (self.now,) * 2)

    def row(self) -> list[str]:
        """Return what is there now, as cells of the table."""
        origin, tags = self.root.parent / "origin.git", Registry(self.repository, "onnx").tags()
        branches = [
            len(sh("git", "for-each-ref", "refs/heads/runs", cwd=folder).splitlines())
            for folder in (self.root, origin)
        ]
        folders = (
            dvc.cache_folder(self.root),
            self.root.parent / "shelf",
            self.root / ".git",
            self.repository.state,
        )
        month = self.nights[-MONTH:]
        sizes = [f"{size_mb(folder):,.1f}" for folder in folders]
        seconds = f"{statistics.median(month):.2f}", f"{self.weeks[-1]:.1f}"
        return [str(len(self.nights)), *map(str, branches), str(len(tags.versions)), *sizes, *seconds]


HEAD = [
    "night",
    "branches here",
    "in origin",
    "versions",
    "cache MB",
    "DVC remote MB",
    "git MB",
    "state MB",
    "night s",
    "cleaning s",
]


def processor_seconds() -> float:
    """Return the processor time of this process and of the programs that it has waited for."""
    return sum(os.times()[:4])


def size_mb(folder: Path) -> float:
    """Return the size of the files of a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


@contextmanager
def repository(folder: Path) -> Iterator[Repository]:
    """Make the repository with its remotes.

    In the block, programs and tasks of a run's end are called as functions.
    """
    root = folder / "repo"
    make_toy(root)
    sh("dvc", "repro", "--quiet", cwd=root)
    add_remote(root, folder / "shelf")
    sh("git", "add", "--all", cwd=root)
    sh("git", "commit", "--quiet", "--message=The first result", cwd=root)
    subprocess.run(["git", "clone", "--quiet", "--bare", "repo", "origin.git"], cwd=folder, check=True)
    sh("git", "remote", "add", "origin", str(folder / "origin.git"), cwd=root)

    def push(pipeline: Pipeline, *, weights: bool) -> None:
        remote.push(pipeline.programs.cwd, weights=weights)

    given = {"push_artifacts": push, "promote": outcome.promote.fn, "report": lambda *_: None}
    with disable_run_logger(), patch.multiple(outcome, **given):
        yield Repository(root)


def main() -> None:
    """Simulate and print; exit with 1 if a night has become slower than ``SLOWER`` times the first ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument(
        "--megabytes",
        type=float,
        default=1.0,
        help="size of the weights of each result (default: %(default)s)",
    )
    options = parser.parse_args()
    table = Table(*HEAD)
    with tempfile.TemporaryDirectory() as folder, repository(Path(folder)) as made:
        start = time.time() - options.nights * DAY
        year = Year(made, int(options.megabytes * 1e6), start, (made.root / "dvc.lock").read_text())
        for night in range(1, options.nights + 1):
            year.live()
            if night % MONTH == 0 or night == options.nights:
                table.add_row(*year.row())
    Console(width=120).print(table)
    first, last = (
        statistics.median(nights) for nights in (year.nights[: 2 * PROMOTED], year.nights[-2 * PROMOTED :])
    )
    print(f"The last nights take {last:.2f} s, the first {first:.2f} s: {last / first:.2f} x.")
    if last > SLOWER * first:
        sys.exit(f"That is more than {SLOWER} x.")


if __name__ == "__main__":
    main()
