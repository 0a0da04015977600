"""Plant faults in real and in generated data, and measure which of them the checks find.

Each fault is planted at some rates, with some seeds, in a copy of MRPC (``--mrpc FOLDER`` with GLUE's
``train.tsv``, ``validation.tsv``, ``test.tsv``; otherwise, and for what MRPC cannot show, in generated
tickets). A worker then runs the stages of this project on the copy, or those of another checkout (``--project
FOLDER``). The tables show, for each fault, the fraction of the copies with an alarm of a kind that belongs to
the fault, which fraction of the planted rows is named and which fraction of the named rows was planted; and
how often each finding gives an alarm on clean copies, which are random parts of the data, the smallest of a
few hundred rows. Of wrong labels, the most doubtful rows count, as many as were planted. Run in the root of
the project, for example ``python -m benchmarks.faults --faults near_renamed leakage``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue
from random import Random
from statistics import mean
from typing import IO, Any, cast

from rich.console import Console
from rich.table import Table

from benchmarks.faults.planting import FAULTS, FINDS, Fault, Planted
from benchmarks.faults.rows import (
    LABEL,
    Data,
    generate_tickets,
    read_mrpc,
    subsample,
    text_columns,
    write_files,
)

WORKER = Path(__file__).with_name("worker.py")
CLEAN_SHARES = (0.15, 0.5, 0.9)
RANKED = "wrong_labels"
"""The kind of fault whose rows people look at in order, the most doubtful first.

As many of these rows count as were planted.
"""


@dataclass(frozen=True)
class Case:
    """A copy of a data set, with a fault or without.

    Attributes:
        name: Name of the fault, ``clean`` without one.
        kind: Kind of the fault.
        data: Name of the data set.
        rate: Rate of the fault; the share of the rows of a clean copy.
        seed: Random seed.
        rows: The rows.
        planted: The planted rows.
    """

    name: str
    kind: str
    data: str
    rate: float
    seed: int
    rows: Data
    planted: Planted


def cases(sources: dict[str, Data], faults: Sequence[Fault], clean: bool, seeds: int) -> Iterator[Case]:
    """Yield all copies, one at a time."""
    for name, data in sources.items() if clean else ():
        for share in CLEAN_SHARES:
            for seed in range(seeds):
                rows = subsample(data, share, generator(share, seed))
                yield Case("clean", "clean", name, share, seed, rows, set())
    for fault in faults:
        name = fault.data if fault.data in sources else "tickets"
        for rate in fault.rates:
            for seed in range(seeds):
                rows = {split: list(split_rows) for split, split_rows in sources[name].items()}
                planted = fault.plant(rows, rate, generator(fault.name, rate, seed))
                yield Case(fault.name, fault.kind, name, rate, seed, rows, planted)


def generator(*seed: object) -> Random:
    """Return a random generator."""
    return Random(" ".join(map(str, seed)))  # noqa: S311 - no secrets


class Worker:
    """A process that runs the stages of a checkout on one case after the other."""

    def __init__(self, project: Path) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        path = os.pathsep.join(filter(None, (str(project.resolve()), os.environ.get("PYTHONPATH"))))
        environment["PYTHONPATH"] = path
        command = [sys.executable, "-P", str(WORKER)]
        log = Path(tempfile.gettempdir()) / f"faults-{os.getpid()}.log"
        with log.open("ab") as stderr:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=environment,
            )
        self.requests, self.answers, self.log = (
            cast("IO[str]", process.stdin),
            cast("IO[str]", process.stdout),
            log,
        )

    def answer(self, case: Case) -> dict[str, Any]:
        """Write the case and return the worker's findings."""
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "case"
            texts = text_columns(case.data)
            write_files(case.rows, texts, folder)
            description = {"texts": texts, "label": LABEL, "kind": case.kind}
            (folder / "case.json").write_text(json.dumps(description), encoding="utf-8")
            print(folder, file=self.requests, flush=True)
            line = self.answers.readline()
        if not line:
            raise SystemExit(f"the worker ended; see {self.log}")
        findings: dict[str, Any] = json.loads(line)
        return findings


@dataclass(frozen=True)
class Score:
    """What the checks make of one case.

    Attributes:
        fault: Name of the fault, ``clean`` without one.
        data: Name of the data set.
        rate: Rate of the fault; the share of the rows of a clean copy.
        seed: Random seed.
        alarm: True if the user is told of the fault.
        stopped: The message with which a stage stopped, if it did.
        alarms: All alarms.
        named: Fraction of the planted rows that are named; ``None`` where no rows were planted.
        precision: Fraction of the named rows that were planted; ``None`` likewise, or if none is named.
        seconds: Wall time.
    """

    fault: str
    data: str
    rate: float
    seed: int
    alarm: bool
    stopped: str | None
    alarms: tuple[str, ...]
    named: float | None
    precision: float | None
    seconds: float

    @classmethod
    def of(cls, case: Case, findings: dict[str, Any], finds: Sequence[str]) -> "Score":
        """Score findings; ``finds`` are those that count for the fault."""
        ranked = [(split, row) for name in finds for split, row in findings["rows"].get(name, ())]
        rows = set(ranked[: len(case.planted)] if case.kind == RANKED else ranked)
        hits = len(rows & case.planted)
        return cls(
            fault=case.name,
            data=case.data,
            rate=case.rate,
            seed=case.seed,
            alarm=findings["stopped"] is not None or bool(set(finds) & set(findings["alarms"])),
            stopped=findings["stopped"],
            alarms=tuple(findings["alarms"]),
            named=hits / len(case.planted) if case.planted else None,
            precision=hits / len(rows) if case.planted and rows else None,
            seconds=findings["seconds"],
        )


def measure(options: argparse.Namespace) -> list[Score]:
    """Run the workers on all cases."""
    sources = {"tickets": generate_tickets()}
    if options.mrpc:
        sources = {"mrpc": read_mrpc(options.mrpc), **sources}
    chosen = [fault for fault in FAULTS if fault.name in options.faults]
    workers: Queue[Worker] = Queue()
    for _ in range(options.jobs):
        workers.put(Worker(options.project))

    def score(case: Case) -> Score:
        worker = workers.get()
        try:
            findings = worker.answer(case)
        finally:
            workers.put(worker)  # else the other cases would wait for a worker that ended
        return Score.of(case, findings, FINDS.get(case.kind, ()))

    with ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(score, cases(sources, chosen, "clean" in options.faults, options.seeds)))


def show(scores: Sequence[Score], title: str) -> None:
    """Print one row per fault and rate, and the alarms on clean copies."""
    groups: dict[tuple[str, str, float], list[Score]] = defaultdict(list)
    for score in scores:
        groups[score.fault, score.data, score.rate].append(score)
    table = Table(
        "fault",
        "data",
        "rate",
        "alarm",
        "rows named",
        "precision",
        "other alarms",
        "s",
        title=title,
        title_justify="left",
    )
    for (name, data, rate), group in groups.items():
        if name != "clean":
            others = Counter(alarm for score in group for alarm in score.alarms if not score.alarm)
            stops = sum(score.stopped is not None for score in group)
            table.add_row(
                name,
                data,
                f"{rate:.2%}",
                f"{sum(score.alarm for score in group)}/{len(group)}" + (f" ({stops} stop)" if stops else ""),
                _mean([score.named for score in group]),
                _mean([score.precision for score in group]),
                ", ".join(others),
                f"{mean(score.seconds for score in group):.1f}",
            )
    console = Console(width=140)
    if table.row_count:
        console.print(table)
    clean = [score for score in scores if score.fault == "clean"]
    if clean:
        alarms = Counter(
            (score.data, alarm)
            for score in clean
            for alarm in (*score.alarms, *(["stopped"] if score.stopped else []))
        )
        totals = Counter(score.data for score in clean)
        console.print("clean copies:", ", ".join(f"{number} of {data}" for data, number in totals.items()))
        console.print(
            "false alarms:",
            ", ".join(f"{name} on {data} {n}/{totals[data]}" for (data, name), n in alarms.items()) or "none",
        )


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{mean(known):.2f}" if known else ""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ["clean", *(fault.name for fault in FAULTS)]
    parser.add_argument(
        "--faults", nargs="+", choices=names, default=names, metavar="FAULT", help=", ".join(names)
    )
    parser.add_argument("--mrpc", type=Path)
    parser.add_argument("--project", type=Path, default=Path())
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write every score to this file")
    options = parser.parse_args()
    scores = measure(options)
    if options.json:
        options.json.write_text(json.dumps([asdict(score) for score in scores], indent=1), encoding="utf-8")
    show(scores, f"checks of {options.project.resolve().name}")


if __name__ == "__main__":
    main()
