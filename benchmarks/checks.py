"""Measure the data checks at growing sizes: seconds without imports, peak memory, and how time grows.

- ``tokenized``: every check of tokenized columns, on one split of ``--rows`` rows. Scalar columns come from
  flat Arrow arrays.
- ``stage``: everything that the stage does, report included, on splits of 80, 10 and 10 percent of the rows.
- ``pandas``: the checks of ``tokenized`` the straightforward way: list columns in pandas, scalars row by row
  in Python, the same suite.
- ``lists``: the one check that Great Expectations supports on a list column itself: uniqueness of the rows.

Each measurement runs in its own process; a method that takes longer than ``--limit`` seconds is not run at a
larger size. Rows are random words, about as many as in MRPC's pairs. Run in the root of the project, on an
otherwise idle machine: ``python -m benchmarks.checks``.
"""

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from tuneline.core.tables import ROW_GROUP, SplitReader, raw_schema, tokenized_schema, write_batches
from tuneline.params import Params
from tuneline.tasks import Classification

SIZES = (10_000, 100_000, 1_000_000)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WORDS = 20_000
LENGTHS = (10, 30)
"""Words in each of the two texts of a row."""
LABELS = Classification(("no", "yes"))
COLUMNS = ("one", "two")
SHARES = {"train": 0.8, "validation": 0.1, "test": 0.1}


def words() -> list[str]:
    """Return distinct artificial words."""
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    return [syllables[n % 70] + syllables[n // 70 % 70] + syllables[n // 4900 % 70] for n in range(WORDS)]


def tokenizer() -> Tokenizer:
    """Return a tokenizer that has each word as one token."""
    made = Tokenizer(
        models.WordLevel(
            {word: number for number, word in enumerate([*SPECIAL, *words()])}, unk_token=SPECIAL[1]
        )
    )
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    made.add_special_tokens(list(SPECIAL))
    return made


def write_data(folder: Path, sizes: Mapping[str, int]) -> None:
    """Write raw and tokenized splits, one row group at a time, and the tokenizer."""
    generator, lexicon = np.random.default_rng(7), pa.array(words())
    for kind in ("raw", "tokenized/tokenizer"):
        (folder / kind).mkdir(parents=True)
    for split, rows in sizes.items():
        groups = [
            group(generator, lexicon, min(ROW_GROUP, rows - start)) for start in range(0, rows, ROW_GROUP)
        ]
        for side, (kind, schema) in enumerate(
            (("raw", raw_schema(COLUMNS, LABELS)), ("tokenized", tokenized_schema(True, LABELS)))
        ):
            batches = [
                pa.record_batch([columns[side][name] for name in schema.names], schema=schema)
                for columns in groups
            ]
            write_batches(folder / kind / f"{split}.parquet", schema, batches)
    tokenizer().save(str(folder / "tokenized/tokenizer/tokenizer.json"))
    config = {"unk_token": SPECIAL[1], "model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    (folder / "tokenized/tokenizer/tokenizer_config.json").write_text(json.dumps(config))


def group(
    generator: np.random.Generator, lexicon: pa.StringArray, rows: int
) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
    """Return the columns of random rows, raw and tokenized."""
    lengths = generator.integers(*LENGTHS, size=(2, rows))
    drawn = [generator.integers(0, WORDS, size=int(side.sum())) for side in lengths]
    texts = [
        pc.binary_join(
            pa.ListArray.from_arrays(np.r_[0, np.cumsum(side)].astype(np.int32), lexicon.take(pa.array(ids))),
            " ",
        )
        for side, ids in zip(lengths, drawn, strict=True)
    ]
    labels = pa.array(generator.integers(0, 2, rows))
    totals = lengths.sum(axis=0) + 3
    offsets = np.r_[0, np.cumsum(totals)].astype(np.int32)
    row, position = (
        np.repeat(np.arange(rows), totals),
        np.arange(offsets[-1]) - np.repeat(offsets[:-1], totals),
    )
    first = lengths[0][row] + 1
    ids = np.full(offsets[-1], 3, dtype=np.int32)
    ids[position == 0] = 2
    ids[(position > 0) & (position < first)] = drawn[0] + len(SPECIAL)
    ids[(position > first) & (position < totals[row] - 1)] = drawn[1] + len(SPECIAL)
    flat = {
        "input_ids": ids,
        "attention_mask": np.ones(len(ids), np.int8),
        "token_type_ids": (position > first).astype(np.int8),
    }
    lists = {name: pa.ListArray.from_arrays(offsets, pa.array(values)) for name, values in flat.items()}
    raw = {"one": texts[0], "two": texts[1], "labels": labels, "idx": pa.array(np.arange(rows))}
    return raw, {**lists, "labels": labels}


def parameters() -> Params:
    """Return the default parameters for these columns."""
    return Params.model_validate(
        {"data": {"text_columns": list(COLUMNS)}, "model": {"config": {"model_type": "bert"}}}
    )


def check_tokenized(folder: Path, derive: Callable[..., Any]) -> None:
    """Derive the scalar columns of the tokenized train split, and check them."""
    from stages.validate.checks import Table as CheckedTable
    from stages.validate.checks import expectations
    from stages.validate.expectations import batch_definition, read_outcome, run_expectations
    from stages.validate.tables import tokenized_limits
    from stages.validate.tokenized import Vocabulary

    params, vocabulary = parameters(), Vocabulary.read(folder / "tokenized/tokenizer", 2)
    columns = derive(folder, vocabulary)
    table = CheckedTable(
        "tokenized", "train", columns, tokenized_limits(vocabulary, params.tokenize.max_length, columns.rows)
    )
    results = run_expectations(table, list(expectations(table, params.validate_)), batch_definition())
    if failed := [
        outcome for outcome in (read_outcome(table, result) for result, _ in results) if not outcome.passed
    ]:
        raise SystemExit(f"valid data fails {failed[0].check.key}: {failed[0].crashed or failed[0].failing}")


def tokenized(folder: Path) -> None:
    """Derive the scalar columns as the stage does."""
    from stages.validate.columns import StoredColumns
    from stages.validate.tokenized import read_tokenized

    def derive(folder: Path, vocabulary: Any) -> StoredColumns:
        split = SplitReader.open(folder / "tokenized", "train", "tokenize")
        return read_tokenized({"train": split}, vocabulary, folder / "derived", parameters().run)["train"]

    check_tokenized(folder, derive)


def in_pandas(folder: Path) -> None:
    """Derive the scalar columns row by row in pandas."""
    from stages.validate.columns import StoredColumns, write_columns

    def derive(folder: Path, vocabulary: Any) -> StoredColumns:
        frame = row_by_row(folder / "tokenized/train.parquet", vocabulary)
        return write_columns(
            folder / "derived/train.parquet", {name: frame[name].to_numpy() for name in frame}
        )

    check_tokenized(folder, derive)


def row_by_row(path: Path, vocabulary: Any) -> pd.DataFrame:
    """Return the columns of ``read_tokenized``, computed row by row in pandas."""
    lists = pd.read_parquet(path)
    ids, mask, types = lists["input_ids"], lists["attention_mask"], lists["token_type_ids"]
    special = ids.map(lambda row: sum(token in vocabulary.special_ids for token in row))
    return pd.DataFrame(
        {
            "tokens": ids.map(len),
            "smallest_id": ids.map(min),
            "largest_id": ids.map(max),
            "first_id": ids.map(lambda row: row[0]),
            "last_id": ids.map(lambda row: row[-1]),
            "special_tokens": special,
            "content_tokens": ids.map(len) - special,
            "unknown_tokens": ids.map(lambda row: sum(token == vocabulary.unknown_id for token in row)),
            "mask_tokens": mask.map(len),
            "smallest_mask": mask.map(min),
            "largest_mask": mask.map(max),
            "type_tokens": types.map(len),
            "smallest_type": types.map(min),
            "largest_type": types.map(max),
            "type_drops": types.map(
                lambda row: sum(after < before for before, after in itertools.pairwise(row))
            ),
            "labels": lists["labels"],
        }
    )


def on_lists(folder: Path) -> None:
    """Check the uniqueness of the rows on the list column."""
    import great_expectations as gx
    from great_expectations.expectations.core.expect_column_values_to_be_unique import (
        ExpectColumnValuesToBeUnique,
    )

    frame = pd.read_parquet(folder / "tokenized/train.parquet")
    frame["input_ids"] = frame["input_ids"].map(list)
    source = gx.get_context(mode="ephemeral").data_sources.add_pandas("lists")
    batch = (
        source.add_dataframe_asset("train")
        .add_batch_definition_whole_dataframe("all")
        .get_batch({"dataframe": frame})
    )
    batch.validate(ExpectColumnValuesToBeUnique(column="input_ids"), result_format="BOOLEAN_ONLY")


def stage(folder: Path) -> None:
    """Run the whole stage, including its report."""
    from stages.validate.expectations import check_tables
    from stages.validate.report import write_checks
    from stages.validate.tables import DataFolders, derive_tables

    results = check_tables(
        derive_tables(
            parameters(), DataFolders(folder / "raw", folder / "tokenized", folder / "derived"), None
        )
    )
    if results.errors:
        raise SystemExit(f"valid data fails {results.errors[0].check}")
    (folder / "report").mkdir()
    write_checks(folder / "report", results)


WAYS = {"tokenized": tokenized, "stage": stage, "pandas": in_pandas, "lists": on_lists}


def measure(way: str, rows: int, limit: float) -> dict[str, float] | None:
    """Measure one method at one size in its own process; return ``None`` if it exceeds the time limit or fails."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = (
            {split: int(rows * share) for split, share in SHARES.items()}
            if way == "stage"
            else {"train": rows}
        )
        write_data(Path(folder) / "data", sizes)
        command = [
            sys.executable,
            "-m",
            "benchmarks.checks",
            "--way",
            way,
            "--folder",
            str(Path(folder) / "data"),
        ]
        try:
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return None
        except subprocess.CalledProcessError as error:
            print(error.stderr[-500:], file=sys.stderr)
            return None
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def run_one(way: str, folder: Path) -> None:
    """Run one method and print its time and memory as JSON."""
    started = time.perf_counter()
    import stages.validate.report  # noqa: F401

    imported, cpu = time.perf_counter(), time.process_time()
    WAYS[way](folder)
    seconds, cpu = time.perf_counter() - imported, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"import": imported - started, "seconds": seconds, "cpu": cpu, "peak": peak}))


def main() -> None:
    """Print a table of all methods at all sizes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument(
        "--limit", type=float, default=300.0, help="time limit of one measurement, in seconds"
    )
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        run_one(arguments.way, arguments.folder)
        return
    table = Table(
        "method",
        "rows",
        "seconds",
        "rows/s",
        "growth",
        "processor s",
        "peak MB",
        "imports, s",
        title="Data checks",
    )
    for way in arguments.ways:
        before: tuple[int, float] | None = None
        for rows in sorted(arguments.rows):
            result = measure(way, rows, arguments.limit)
            if result is None:
                table.add_row(way, f"{rows:,}", f"over {arguments.limit:.0f}, or failed", "", "", "", "", "")
                break
            seconds = result["seconds"]
            grown = f"{seconds / before[1]:.1f} x for {rows / before[0]:.0f} x" if before else ""
            costs = f"{result['cpu']:.2f}", f"{result['peak']:,.0f}", f"{result['import']:.1f}"
            table.add_row(way, f"{rows:,}", f"{seconds:.2f}", f"{rows / seconds:,.0f}", grown, *costs)
            before = rows, seconds
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
