"""Measure the search for near-duplicates: what it finds of planted copies, what it names in clean data, and its time and memory.

- ``--mrpc FOLDER``: copies of rows of MRPC (GLUE's ``train.tsv``, ``validation.tsv`` and ``test.tsv``) are
  changed and planted in test. A table has the fraction found by kind of change, and the rows that the clean
  data names: for the search itself, and for similarities with other weights of words, compared exactly.
- ``--rows 1000000``: the search of generated rows, in a process of its own. Word frequencies follow Zipf's
  law, a third of the words of a row are those of its topic, and one row in a hundred is a copy of another one
  with one word in ten replaced.

Run in the root of the project, on an otherwise idle machine: ``python -m benchmarks.near_duplicates --rows
1000000``.
"""

import argparse
import csv
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from stages.validate.near_duplicates import NO_ROW, NearDuplicateRows, find_near_duplicates
from tuneline.analysis.similarity import WordSets
from tuneline.analysis.text import EncodedWords, normalized, text_keys, unordered_row_keys, words
from tuneline.core.paths import SPLITS
from tuneline.params.loading import load_params

Row = tuple[str, ...]
PLANTED = 300
"""Copies of each kind."""
DIFFERENT_WORDS = 200_000
TOPICS = 2_000
WORDS_OF_A_TOPIC = 400
BATCH = 65_536


def read_mrpc(folder: Path) -> list[list[Row]]:
    """Return the pairs of sentences of each split."""
    splits = []
    for split in SPLITS:
        with (folder / f"{split}.tsv").open(encoding="utf-8-sig", newline="") as file:
            splits.append(
                [tuple(row[3:5]) for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)][1:]
            )
    return splits


def changes(rows: Sequence[Row], rng: random.Random) -> dict[str, Callable[[str], str]]:
    """Return the ways to change a copy, by name.

    New words are drawn from all different words of the rows: most of them are rare.
    """
    texts = [text.split() for row in rows for text in row]
    vocabulary = sorted({word for text in texts for word in text})
    names = [word for text in texts for word in text[1:] if word[:1].isupper()]
    numbers = [word for text in texts for word in text if word[:1].isdigit()]

    def replaced(fraction: float) -> Callable[[str], str]:
        def change(text: str) -> str:
            tokens = text.split()
            places = [place for place, word in enumerate(tokens) if word[:1].isalnum()]
            for place in rng.sample(places, min(len(places), max(1, round(fraction * len(places))))):
                tokens[place] = rng.choice(vocabulary)
            return " ".join(tokens)

        return change

    def without_clause(text: str) -> str:
        tokens = text.split()
        length = max(1, len(tokens) // 3)
        start = rng.randrange(len(tokens) - length + 1)
        return " ".join(tokens[:start] + tokens[start + length :])

    def swapped(text: str) -> str:
        tokens = text.split()
        middle = rng.randrange(1, max(len(tokens), 2))
        return " ".join(tokens[middle:] + tokens[:middle])

    def renamed(text: str) -> str:
        first, *rest = text.split()
        new = [
            (
                rng.choice(names if word[:1].isupper() else numbers)
                if is_name(word) and rng.random() < 0.5
                else word
            )
            for word in rest
        ]
        return " ".join([first, *new])

    def is_name(word: str) -> bool:
        return word[:1].isupper() or word[:1].isdigit()

    return {
        "1 word in 10": replaced(0.1),
        "1 word in 5": replaced(0.2),
        "a third left out": without_clause,
        "clauses swapped": swapped,
        "half of names, numbers": renamed,
    }


def planted(rows: Sequence[Row], seed: int = 1) -> Iterator[tuple[str, list[int], list[Row]]]:
    """Yield kinds of changes, the rows that were copied, and their changed copies."""
    rng = random.Random(seed)  # noqa: S311 - no secrets
    for kind, change in changes(rows, rng).items():
        sources, copies = [], []
        while len(sources) < PLANTED:
            source = rng.randrange(len(rows))
            copy = tuple(map(change, rows[source]))
            if normal(copy) != normal(rows[source]):
                sources.append(source)
                copies.append(copy)
        yield kind, sources, copies


def normal(row: Row) -> list[str]:
    """Return a row as the check ``leakage`` compares it."""
    return sorted(" ".join(text.lower().split()) for text in row)


def encode(rows: Sequence[Row]) -> tuple[list[EncodedWords], NDArray[np.uint64]]:
    """Return the words and the keys of rows."""
    columns = [normalized(pa.array(column, pa.string())) for column in zip(*rows, strict=True)]
    return [EncodedWords.of(words(columns))], unordered_row_keys([text_keys(column) for column in columns])


def search(splits: Sequence[Sequence[Row]], similarity: float) -> list[NearDuplicateRows]:
    """Search splits for near-duplicates."""
    encoded = [encode(rows) for rows in splits]
    return find_near_duplicates(
        [batches for batches, _ in encoded], [keys for _, keys in encoded], similarity
    )


def weighted(sets: WordSets, power: float) -> WordSets:
    """Return the sets with another power of the inverse document frequency as weights: 0 for equal ones, 0.5 for those of the search."""
    others = replace(sets, weights=sets.weights ** (2 * power))
    matrix = others.matrix(0, len(sets.totals))
    return replace(others, totals=np.asarray(matrix.multiply(matrix).sum(axis=1), np.float32).ravel())


def named_exactly(sets: WordSets, rows: int, similarity: float) -> float:
    """Return the fraction of the first rows that resemble an earlier one, by comparing all pairs."""
    every = sets.matrix(0, rows).T.tocsr()
    named = 0
    for start in range(0, rows, 500):
        stop = min(rows, start + 500)
        common = (sets.matrix(start, stop) @ every).toarray()
        alike = common >= similarity * (sets.totals[start:stop, None] + sets.totals[None, :rows] - common)
        named += int((alike & (np.arange(rows)[None] < np.arange(start, stop)[:, None])).any(axis=1).sum())
    return named / rows


def compare(splits: list[list[Row]], similarity: float) -> Table:
    """Return the table of what is found."""
    rows = [row for split in splits for row in split]
    kinds = list(planted(rows))
    table = Table(
        "similarity", *(kind for kind, _, _ in kinds), "named in clean data", title="Found of planted copies"
    )
    found = []
    for _, _, copies in kinds:
        origin = search([*splits[:2], [*splits[2], *copies]], similarity)[2].origin[-len(copies) :]
        found.append(f"{(origin != NO_ROW).mean():.1%}")
    clean = np.concatenate([split.origin for split in search(splits, similarity)]) != NO_ROW
    table.add_row("the search", *found, f"{clean.mean():.1%}")
    sets = WordSets.of(encode([*rows, *(copy for _, _, copies in kinds for copy in copies)])[0])
    for name, power in (("equal weights", 0.0), ("root of IDF", 0.5), ("IDF", 1.0)):
        others = weighted(sets, power)
        copies = np.arange(len(rows), len(rows) + len(kinds) * PLANTED)
        alike = others.similarity(copies, np.concatenate([sources for _, sources, _ in kinds])) >= similarity
        table.add_row(
            f"{name}, all pairs",
            *(f"{one.mean():.1%}" for one in np.split(alike, len(kinds))),
            f"{named_exactly(others, len(rows), similarity):.1%}",
        )
    return table


def generated(rows: int, seed: int = 1) -> tuple[list[EncodedWords], NDArray[np.uint64], float]:
    """Return words and keys of generated rows, and the seconds for normalizing and encoding them.

    The last 1 % are changed copies.
    """
    generator = np.random.default_rng(seed)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    lexicon = pa.array(
        [
            syllables[n % 70] + syllables[n // 70 % 70] + syllables[n // 4900 % 70]
            for n in range(DIFFERENT_WORDS)
        ]
    )
    frequencies = np.cumsum(1 / np.arange(1, DIFFERENT_WORDS + 1))
    lengths, copies = generator.integers(20, 60, rows), rows // 100
    lengths[-copies:] = lengths[:copies]
    ends = np.cumsum(lengths)

    def drawn(number: int) -> NDArray[np.int32]:
        return np.searchsorted(frequencies, generator.random(number) * frequencies[-1]).astype(np.int32)

    ids = drawn(int(ends[-1]))
    topic = np.repeat(generator.integers(0, TOPICS, rows), lengths)
    of_topic = (
        topic * 97 + (generator.random(len(ids)) ** 2 * WORDS_OF_A_TOPIC).astype(np.int64) * 31
    ) % DIFFERENT_WORDS
    ids = np.where(generator.random(len(ids)) < 1 / 3, of_topic, ids).astype(np.int32)
    copied = ids[: ends[copies - 1]]
    ids[-len(copied) :] = np.where(generator.random(len(copied)) < 0.1, drawn(len(copied)), copied)
    batches, keys, seconds = [], [], 0.0
    for start in range(0, rows, BATCH):
        offsets = np.r_[0, ends][start : start + BATCH + 1]
        lists = pa.ListArray.from_arrays(
            pa.array(offsets - offsets[0], pa.int32()), lexicon.take(pa.array(ids[offsets[0] : offsets[-1]]))
        )
        texts = pc.binary_join(lists, " ")
        started = time.perf_counter()
        column = normalized(texts)
        batches.append(EncodedWords.of(words([column])))
        keys.append(unordered_row_keys([text_keys(column)]))
        seconds += time.perf_counter() - started
    return batches, np.concatenate(keys), seconds


def measure(rows: int, similarity: float) -> dict[str, Any]:
    """Search generated rows, and return seconds, memory and the fraction of the copies that was found."""
    batches, keys, seconds = generated(rows)
    before, cpu = time.perf_counter(), time.process_time()
    (found,) = find_near_duplicates([batches], [keys], similarity)
    return {
        "rows": rows,
        "encoding": seconds,
        "search": time.perf_counter() - before,
        "processor": time.process_time() - cpu,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "found": float((found.origin[-(rows // 100) :] != NO_ROW).mean()),
        "others": float((found.origin[: -(rows // 100)] != NO_ROW).mean()),
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mrpc", type=Path, help="folder of MRPC")
    parser.add_argument("--rows", type=int, nargs="*", default=[], help="numbers of generated rows")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    similarity = load_params().validate_.near_duplicates.similarity
    if arguments.one:
        print(json.dumps(measure(arguments.one, similarity)))
        return
    console = Console(width=140)
    if arguments.mrpc:
        console.print(compare(read_mrpc(arguments.mrpc), similarity))
    if arguments.rows:
        columns = (
            "rows",
            "encoding, s",
            "search, s",
            "processor, s",
            "peak MB",
            "copies found",
            "others named",
        )
        table = Table(*columns, title="Search of generated rows")
        for rows in arguments.rows:
            command = [sys.executable, "-m", "benchmarks.near_duplicates", "--one", str(rows)]
            one = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            seconds = (f"{one[name]:.1f}" for name in ("encoding", "search", "processor"))
            table.add_row(
                f"{rows:,}", *seconds, f"{one['peak']:,.0f}", f"{one['found']:.1%}", f"{one['others']:.3%}"
            )
        console.print(table)


if __name__ == "__main__":
    main()
