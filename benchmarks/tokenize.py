"""Measure three methods of tokenizing sentence pairs, on the same rows, in alternation.

- ``datasets.map(tokenizer, batched=True)``: the usual method, written to an Arrow file.
- The Rust tokenizer alone, which discards the ids: an upper bound for any method in Python.
- The stage: Parquet to Parquet, including all columns and counts.

Run in the root of the project: ``python -m benchmarks.tokenize``. Texts are MRPC's, repeated, if MRPC is next
to the checkout; else random words.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table
from transformers import PreTrainedTokenizerFast

from tuneline.core.stage.tables import SplitReader, write_batches
from tuneline.model.tasks import Classification
from tuneline.model.tasks.columns import raw_schema
from tuneline.model.tokens.encoded_columns import ENCODED_AT_A_TIME, Encoder
from tuneline.model.tokens.long_text import LongText
from tuneline.model.tokens.tokenizer import load_tokenizer, save_tokenizer
from tuneline.model.tokens.wordpiece import (
    TRAINING_ROWS,
    SavedTokenizer,
    Shard,
    tokenize_shard,
    train_wordpiece,
    training_texts,
)

SHARED = Path(__file__).resolve().parents[2] / "shared"
COLUMNS = ["first", "second"]
Way = Callable[[Path, PreTrainedTokenizerFast, int], None]


def pairs() -> list[tuple[str, str]]:
    """Return some thousand sentence pairs."""
    source = SHARED / "data/mrpc/train.tsv"
    if source.is_file():
        lines = source.read_text(encoding="utf-8-sig").splitlines()[1:]
        return [(first, second) for _, _, _, first, second in (line.split("\t") for line in lines)]
    random = np.random.default_rng(0)
    words = np.array(
        [
            f"{stem}{ending}"
            for stem in ("parcel", "invoice", "refund", "order", "carrier", "login")
            for ending in ("", "s", "ed", "ing")
        ]
    )
    return [
        tuple(" ".join(random.choice(words, random.integers(12, 30))) for _ in COLUMNS) for _ in range(4000)
    ]  # type: ignore[misc]


def write_raw(path: Path, rows: int) -> None:
    """Write ``rows`` pairs as a raw split, one row group at a time."""
    texts, schema = pairs(), raw_schema(COLUMNS, Classification(("no", "yes")))

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, rows, 10_000):
            index = range(start, min(start + 10_000, rows))
            first, second = zip(*(texts[row % len(texts)] for row in index), strict=True)
            yield pa.record_batch(
                [pa.array(first), pa.array(second), pa.array([row % 2 for row in index]), pa.array(index)],
                schema=schema,
            )

    write_batches(path, schema, batches())


def tokenizer_for(path: Path) -> PreTrainedTokenizerFast:
    """Return the tokenizer of ``bert-base-uncased`` if there is one, else one trained on the rows."""
    folder = SHARED / "hub/models/google-bert/bert-base-uncased"
    if folder.is_dir():
        return load_tokenizer(folder, folder.name)
    texts = partial(training_texts, SplitReader(path.parent, path.stem, (path,)), COLUMNS)
    return train_wordpiece(partial(texts, TRAINING_ROWS), 8000)


def with_datasets(path: Path, tokenizer: PreTrainedTokenizerFast, max_length: int) -> None:
    """Run ``datasets.map``, without its cache."""
    import datasets

    datasets.disable_progress_bars()
    rows = datasets.Dataset.from_parquet(str(path), cache_dir=str(path.parent / "cache"))

    def encode(batch: dict[str, list[str]]) -> Any:
        return tokenizer(batch["first"], batch["second"], truncation=True, max_length=max_length)

    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        rows.map(
            encode,
            batched=True,
            remove_columns=COLUMNS,
            load_from_cache_file=False,
            cache_file_name=f"{folder}/map.arrow",
        )


def with_rust_alone(path: Path, tokenizer: PreTrainedTokenizerFast, max_length: int) -> None:
    """Encode the rows and discard the ids."""
    encoder = Encoder(tokenizer, max_length, pairs=True)
    texts = _TEXTS.setdefault(
        path, list(zip(*pq.read_table(path, columns=COLUMNS).to_pydict().values(), strict=True))
    )
    for start in range(0, len(texts), ENCODED_AT_A_TIME):
        encoder.encode(texts[start : start + ENCODED_AT_A_TIME])


_TEXTS: dict[Path, list[tuple[str, str]]] = {}


def with_the_stage(path: Path, tokenizer: PreTrainedTokenizerFast, max_length: int) -> None:
    """Tokenize from Parquet to Parquet, as the stage does."""
    folder = path.with_name("tokenizer")
    if not folder.exists():  # in the warm-up round
        save_tokenizer(tokenizer, max_length, folder)
    names = tokenizer.truncation_side, tokenizer.unk_token_id, tokenizer.model_input_names
    saved = SavedTokenizer(folder / "tokenizer.json", *names)
    tokenize_shard(
        Shard(
            "train",
            path,
            path.with_name("tokenized.parquet"),
            saved,
            COLUMNS,
            max_length,
            LongText(),
        )
    )


WAYS: dict[str, Way] = {
    "datasets.map": with_datasets,
    "Rust tokenizer alone": with_rust_alone,
    "stage": with_the_stage,
}


def measure(rows: int, rounds: int, max_length: int) -> dict[str, float]:
    """Return rows per second of each method: the median of ``rounds``, after one warm-up round."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.parquet"
        write_raw(path, rows)
        tokenizer = tokenizer_for(path)
        seconds: dict[str, list[float]] = {name: [] for name in WAYS}
        for turn in range(rounds + 1):
            for name, way in WAYS.items():
                started = time.perf_counter()
                way(path, tokenizer, max_length)
                if turn:
                    seconds[name].append(time.perf_counter() - started)
    return {name: rows / statistics.median(taken) for name, taken in seconds.items()}


def measure_memory(rows: int, max_length: int) -> None:
    """Print the peak memory of this process in MB after tokenizing ``rows`` rows as the stage does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.parquet"
        write_raw(path, rows)
        with_the_stage(path, tokenizer_for(path), max_length)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def memory_of(rows: int, max_length: int) -> float:
    """Return the peak memory in MB, measured in its own process."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.tokenize",
        "--memory-of",
        str(rows),
        "--max-length",
        str(max_length),
    ]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Measure and print two tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=23_496)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument(
        "--memory-of", type=int, help="measure only the memory for this number of rows, in this process"
    )
    options = parser.parse_args()
    if options.memory_of:
        measure_memory(options.memory_of, options.max_length)
        return
    speeds = measure(options.rows, options.rounds, options.max_length)
    table = Table(
        "method",
        "rows/s",
        "of datasets.map",
        "of Rust alone",
        title=f"{options.rows:,} pairs, {os.cpu_count()} cores",
    )
    for name, speed in speeds.items():
        table.add_row(
            name,
            f"{speed:,.0f}",
            f"{speed / speeds['datasets.map']:.2f}",
            f"{speed / speeds['Rust tokenizer alone']:.2f}",
        )
    memory = Table("rows", "peak memory of the stage, MB")
    for rows in (options.rows, options.rows * 8):
        memory.add_row(f"{rows:,}", f"{memory_of(rows, options.max_length):,.0f}")
    console = Console()
    console.print(table, memory)


if __name__ == "__main__":
    main()
