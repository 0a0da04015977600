"""Measure the stages on large data: seconds, rows per second and peak memory, by rows and engine.

Rows are generated: one text of 12 to 40 words, whose frequencies follow Zipf's law; a third of the words are
those of the class, and one row in a hundred is a copy of another one with one word in ten replaced. 98 % of
the rows are in train. The stages run one after the other in a project of their own, each as ``dvc repro``
would start it.

Memory is that of the process and all its children: the peak of their proportional set sizes (a page that
several share counts once), and the part of it that is anonymous, which the system cannot take back; pages of
memory-mapped files and of Ray's object store are the rest.

Run in the root of the project, with nothing else running: ``python -m benchmarks.scale --rows 100000
1000000``. Ten million rows take more than an hour, and 20 GB in ``--folder``. A line per measurement is added
to ``--results``, so that nothing is lost if the run is stopped.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from tuneline.core.params.params_file import changed

ROOT = Path(__file__).resolve().parents[1]
CLASSES = ("billing", "delivery", "login", "returns")
WORDS = 100_000
WORDS_OF_A_CLASS = 2_000
BLOCK = 100_000
"""Rows that are generated at a time, and rows of a file of the source."""
SHARES = {"train": 0.98, "validation": 0.01, "test": 0.01}
SETTINGS = {
    "data.source": "files",
    "data.text_columns": ["text"],
    "data.label_column": "queue",
    "data.sample": {"rows": 400, "mislabelled": 0.0},
    "tokenize.max_length": 64,
    "model.config.hidden_size": 64,
    "model.config.intermediate_size": 128,
    "model.config.num_hidden_layers": 1,  # a small model: the share of all else is largest
    "train.epochs": None,
    "train.max_steps": 20,
    "run.checkpoint_every_steps": None,
}
ENGINES = {"local": "local", "ray1": "ray", "ray2": "ray", "ray4": "ray"}
STAGES = ("download", "base", "tokenize", "validate", "baseline", "train", "evaluate", "export", "predict")


@dataclass(frozen=True)
class Measurement:
    """What one command needed.

    Attributes:
        rows: Rows of the data.
        stage: Stage, or ``predict``.
        engine: ``local``, or ``ray`` and the number of workers.
        seconds: From start to end.
        peak_mb: Largest sum of the proportional set sizes of all processes, in MB.
        anonymous_mb: Largest sum of their anonymous memory, in MB.
    """

    rows: int
    stage: str
    engine: str
    seconds: float
    peak_mb: float
    anonymous_mb: float


def lexicon() -> pa.Array:
    """Return different words of four to six letters, the most frequent first."""
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    return pa.array(
        [
            syllables[n % 70] + syllables[n // 70 % 70] + ("" if n < 4900 else syllables[n // 4900])
            for n in range(WORDS)
        ]
    )


def blocks(rows: int, seed: int) -> Iterator[pa.Table]:
    """Yield generated rows, ``BLOCK`` at a time."""
    words, cumulative = lexicon(), np.cumsum(1 / np.arange(1, WORDS + 1))
    for start in range(0, rows, BLOCK):
        generator = np.random.default_rng((seed, start))
        count = min(BLOCK, rows - start)
        yield _block(generator, count, words, cumulative)


def _block(
    generator: np.random.Generator, count: int, words: pa.Array, cumulative: NDArray[np.float64]
) -> pa.Table:
    labels, lengths, copies = (
        generator.integers(0, len(CLASSES), count),
        generator.integers(12, 41, count),
        count // 100,
    )
    if copies:
        labels[-copies:], lengths[-copies:] = labels[:copies], lengths[:copies]
    ends = np.cumsum(lengths)

    def drawn(number: int) -> NDArray[np.int64]:
        return np.searchsorted(cumulative, generator.random(number) * cumulative[-1])

    ids = drawn(int(ends[-1]))
    of_class = (
        np.repeat(labels, lengths) * WORDS_OF_A_CLASS
        + 1_000
        + (generator.random(len(ids)) ** 2 * WORDS_OF_A_CLASS).astype(np.int64)
    )
    ids = np.where(generator.random(len(ids)) < 1 / 3, of_class, ids)
    if copies:
        copied = ids[: ends[copies - 1]]
        ids[-len(copied) :] = np.where(generator.random(len(copied)) < 0.1, drawn(len(copied)), copied)
    lists = pa.ListArray.from_arrays(pa.array(np.r_[0, ends], pa.int32()), words.take(pa.array(ids)))
    return pa.table({"text": pc.binary_join(lists, " "), "queue": pa.array(CLASSES).take(pa.array(labels))})


def write_project(folder: Path, rows: int, shard_rows: int) -> None:
    """Write the source, the parameters and the settings of a project."""
    for seed, (split, share) in enumerate(SHARES.items()):
        source = folder / "data/source" / split
        source.mkdir(parents=True)
        for number, block in enumerate(blocks(int(rows * share), seed)):
            pq.write_table(block, source / f"{number:05d}.parquet", compression="zstd")
    for name in ("conf", "dvc.yaml", "project", "stages"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "data/corrections").mkdir()
    (folder / "params.yaml").write_text(
        changed(ROOT / "params.yaml", {**SETTINGS, "data.shard_rows": shard_rows}), encoding="utf-8"
    )


def set_engine(folder: Path, engine: str) -> None:
    """Write the engine and its workers to ``params.yaml``."""
    workers = int(engine.removeprefix("ray")) if engine != "local" else None
    text = changed(folder / "params.yaml", {"run.engine": ENGINES[engine], "run.workers": workers})
    (folder / "params.yaml").write_text(text, encoding="utf-8")


def command(stage: str, folder: Path, engine: str) -> list[str]:
    """Return the command of a stage; that of ``predict`` scores the train split again, without its labels."""
    if stage != "predict":
        launched = ["tuneline.training.launch", "stages.train"]
        return [sys.executable, "-m", *(launched if stage == "train" else [f"stages.{stage}"])]
    options = [] if engine == "local" else ["--engine", "ray", "--workers", engine.removeprefix("ray")]
    output = folder / f"predictions-{engine}"
    tuneline = str(Path(sys.executable).with_name("tuneline"))
    model = ["--model", "models/candidates"]  # stage compare would publish it
    return [
        tuneline,
        "predict",
        str(folder / "data/source/train"),
        "--output",
        f"{output}/",
        *model,
        *options,
    ]


def measured(arguments: Sequence[str], folder: Path) -> tuple[float, float, float]:
    """Run a command in a folder; return its seconds, its peak memory and its peak of anonymous memory, in MB.

    Raises:
        SystemExit: The command fails.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "output.txt").open("w", encoding="utf-8") as output:
        started = time.perf_counter()
        process = subprocess.Popen(arguments, cwd=folder, env=environment, stdout=output, stderr=output)
        peaks, over = [0.0, 0.0], threading.Event()
        watch = threading.Thread(target=_watch, args=(process.pid, peaks, over))
        watch.start()
        status, seconds = process.wait(), time.perf_counter() - started
        over.set()
        watch.join()
    if status:
        text = (folder / "output.txt").read_text(encoding="utf-8")
        sys.exit(f"{' '.join(arguments)} ended with {status}:\n{text[-4000:]}")
    return seconds, peaks[0], peaks[1]


def _watch(pid: int, peaks: list[float], over: threading.Event) -> None:
    """Update the peaks of a process and its children until it is over."""
    while not over.wait(0.5):
        sums = np.zeros(2)
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(pid)
            for process in (root, *root.children(recursive=True)):
                with suppress(OSError):
                    sums += _memory(process.pid)
        peaks[:] = np.maximum(peaks, sums).tolist()


def _memory(pid: int) -> tuple[float, float]:
    """Return the proportional set size and the anonymous part of it, in MB."""
    values = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]:
        name, number, _ = line.split()
        values[name] = int(number) / 1024
    return values["Pss:"], values["Pss_Anon:"]


def measure(
    rows: int, shard_rows: int, stages: Sequence[str], engines: Sequence[str], folder: Path
) -> Iterator[Measurement]:
    """Run the stages on generated rows; those that have engines with each of them."""
    write_project(folder, rows, shard_rows)
    for stage in STAGES:
        chosen = engines if stage in stages and stage in ("tokenize", "validate", "predict") else ["local"]
        for engine in chosen if stage in stages or stage in ("download", "base") else []:
            set_engine(folder, engine)
            yield Measurement(rows, stage, engine, *measured(command(stage, folder, engine), folder))


def table(results: Sequence[Measurement]) -> Table:
    """Return the table of all measurements."""
    drawn = Table("rows", "stage", "engine", "seconds", "rows/s", "peak MB", "anonymous MB")
    for one in results:
        speed = f"{one.rows / one.seconds:,.0f}"
        drawn.add_row(
            f"{one.rows:,}",
            one.stage,
            one.engine,
            f"{one.seconds:.1f}",
            speed,
            f"{one.peak_mb:,.0f}",
            f"{one.anonymous_mb:,.0f}",
        )
    return drawn


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument(
        "--shard-rows",
        type=int,
        default=100_000,
        help="rows of a file, which is the unit of work of Ray's workers",
    )
    parser.add_argument(
        "--stages",
        nargs="+",
        choices=STAGES,
        default=["tokenize", "validate", "baseline", "train", "evaluate", "export", "predict"],
    )
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=["local", "ray1", "ray2"])
    parser.add_argument(
        "--folder",
        type=Path,
        help="where the projects are written; default: the system's folder of temporary files",
    )
    parser.add_argument("--results", type=Path, default=Path("reports/scale.jsonl"))
    options = parser.parse_args()
    options.results.parent.mkdir(parents=True, exist_ok=True)
    results = []
    for rows in options.rows:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            for one in measure(rows, options.shard_rows, options.stages, options.engines, Path(folder)):
                results.append(one)
                with options.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(one)) + "\n")
                print(
                    f"{one.rows:,} rows, {one.stage}, {one.engine}: {one.seconds:.1f} s,"
                    f" {one.peak_mb:,.0f} MB",
                    flush=True,
                )
    Console(width=120).print(table(results))


if __name__ == "__main__":
    main()
