"""The data checks at growing sizes: seconds after imports, peak memory, and how time grows.

- ``tokenized``: every check of tokenized columns, on one split of so many rows. Scalar columns come from flat Arrow arrays.
- ``stage``: everything that the stage does, report included, on splits of 80, 10 and 10 per cent of so many rows.
- ``pandas``: the checks of ``tokenized`` the straightforward way: list columns in pandas, scalars row by row in Python, the same suite.
- ``lists``: the one check that Great Expectations can do on a list column itself: that no row stands there twice.

Each measurement is a process of its own; a way that takes longer than ``--limit`` seconds is not tried at a larger size. Rows are
random words, about as many as MRPC's pairs have. Run in the root of the project: ``python -m benchmarks.checks``; nothing else
should run beside it.
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

from tuneline.files.schemas import ROW_GROUP, LabelSchema, raw_schema, tokenized_schema, write_batches
from tuneline.params import Params

SIZES = (10_000, 100_000, 1_000_000)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WORDS = 20_000
LENGTHS = (10, 30)
"""Words in each of the two texts of a row."""
LABELS = LabelSchema(("no", "yes"))
COLUMNS = ("one", "two")
SHARES = {"train": 0.8, "validation": 0.1, "test": 0.1}


def words() -> list[str]:
    """Made-up words, all different."""
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    return [syllables[n % 70] + syllables[n // 70 % 70] + syllables[n // 4900 % 70] for n in range(WORDS)]


def tokenizer() -> Tokenizer:
    """Knows every word as one token."""
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate([*SPECIAL, *words()])}, unk_token=SPECIAL[1]))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.add_special_tokens(list(SPECIAL))
    return made


def write_data(folder: Path, sizes: Mapping[str, int]) -> None:
    """Writes raw and tokenized splits, a row group at a time, and the tokenizer."""
    chance, lexicon = np.random.default_rng(7), pa.array(words())
    for kind in ("raw", "tokenized/tokenizer"):
        (folder / kind).mkdir(parents=True)
    for split, rows in sizes.items():
        groups = [group(chance, lexicon, min(ROW_GROUP, rows - start)) for start in range(0, rows, ROW_GROUP)]
        for place, (kind, schema) in enumerate((("raw", raw_schema(COLUMNS, LABELS)), ("tokenized", tokenized_schema(True, LABELS)))):
            batches = [pa.record_batch([columns[place][name] for name in schema.names], schema=schema) for columns in groups]
            write_batches(folder / kind / f"{split}.parquet", schema, batches)
    tokenizer().save(str(folder / "tokenized/tokenizer/tokenizer.json"))
    config = {"unk_token": SPECIAL[1], "model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    (folder / "tokenized/tokenizer/tokenizer_config.json").write_text(json.dumps(config))


def group(chance: np.random.Generator, lexicon: pa.StringArray, rows: int) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
    """The columns of some rows, raw and tokenized."""
    lengths = chance.integers(*LENGTHS, size=(2, rows))
    drawn = [chance.integers(0, WORDS, size=int(side.sum())) for side in lengths]
    texts = [
        pc.binary_join(pa.ListArray.from_arrays(np.r_[0, np.cumsum(side)].astype(np.int32), lexicon.take(pa.array(ids))), " ")
        for side, ids in zip(lengths, drawn, strict=True)
    ]
    labels = pa.array(chance.integers(0, 2, rows))
    totals = lengths.sum(axis=0) + 3
    offsets = np.r_[0, np.cumsum(totals)].astype(np.int32)
    row, place = np.repeat(np.arange(rows), totals), np.arange(offsets[-1]) - np.repeat(offsets[:-1], totals)
    first = lengths[0][row] + 1
    ids = np.full(offsets[-1], 3, dtype=np.int32)
    ids[place == 0] = 2
    ids[(place > 0) & (place < first)] = drawn[0] + len(SPECIAL)
    ids[(place > first) & (place < totals[row] - 1)] = drawn[1] + len(SPECIAL)
    flat = {"input_ids": ids, "attention_mask": np.ones(len(ids), np.int8), "token_type_ids": (place > first).astype(np.int8)}
    lists = {name: pa.ListArray.from_arrays(offsets, pa.array(values)) for name, values in flat.items()}
    raw = {"one": texts[0], "two": texts[1], "labels": labels, "idx": pa.array(np.arange(rows))}
    return raw, {**lists, "labels": labels}


def parameters() -> Params:
    """The defaults, for these columns."""
    return Params.model_validate({"data": {"text_columns": list(COLUMNS)}, "model": {"config": {"model_type": "bert"}}})


def judge_tokenized(folder: Path, derive: Callable[..., pd.DataFrame]) -> None:
    """Derive the scalar columns of the tokenized train split, and check them."""
    from stages.validate.builders import TokenizedFacts
    from stages.validate.checks import expectations
    from stages.validate.runner import read_outcomes, run_suites
    from stages.validate.tables import Table as CheckedTable
    from stages.validate.tokenizer import Vocabulary

    params, vocabulary = parameters(), Vocabulary.read(folder / "tokenized/tokenizer", 2)
    frame = derive(folder / "tokenized/train.parquet", vocabulary)
    facts = TokenizedFacts(frozenset(frame.columns), vocabulary, params.tokenize.max_length, len(frame))
    tables = [CheckedTable("tokenized", "train", frame, list(expectations("tokenized", params.validate_, facts)))]
    if bad := [outcome for outcome in read_outcomes(tables, run_suites(tables)) if not outcome.passed]:
        raise SystemExit(f"good data fails {bad[0].check}: {bad[0].crashed or bad[0].failing}")


def tokenized(folder: Path) -> None:
    """The way of the stage."""
    from stages.validate.tokenized import tokenized_columns

    judge_tokenized(folder, tokenized_columns)


def in_pandas(folder: Path) -> None:
    """The straightforward way."""
    judge_tokenized(folder, row_by_row)


def row_by_row(path: Path, vocabulary: Any) -> pd.DataFrame:
    """The columns of ``tokenized_columns``, as one writes them down in pandas."""
    lists = pd.read_parquet(path)
    ids, mask, types = lists["input_ids"], lists["attention_mask"], lists["token_type_ids"]
    special = ids.map(lambda row: sum(token in vocabulary.special_ids for token in row))
    return pd.DataFrame(
        {
            "row": range(len(lists)),
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
            "type_drops": types.map(lambda row: sum(after < before for before, after in itertools.pairwise(row))),
            "labels": lists["labels"],
        }
    )


def on_lists(folder: Path) -> None:
    """Uniqueness of the rows, on the list column."""
    import great_expectations as gx
    from great_expectations.expectations.core.expect_column_values_to_be_unique import ExpectColumnValuesToBeUnique

    frame = pd.read_parquet(folder / "tokenized/train.parquet")
    frame["input_ids"] = frame["input_ids"].map(list)
    source = gx.get_context(mode="ephemeral").data_sources.add_pandas("lists")
    batch = source.add_dataframe_asset("train").add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
    batch.validate(ExpectColumnValuesToBeUnique(column="input_ids"), result_format="BOOLEAN_ONLY")


def stage(folder: Path) -> None:
    """All of the stage, report included."""
    from stages.validate.report import write_report
    from stages.validate.results import check_tables
    from stages.validate.tables import DataFolders, derive_tables

    results = check_tables(derive_tables(parameters(), DataFolders(folder / "raw", folder / "tokenized"), None))
    if results.errors:
        raise SystemExit(f"good data fails {results.errors[0].check.key}")
    (folder / "report").mkdir()
    write_report(folder / "report", results)


WAYS = {"tokenized": tokenized, "stage": stage, "pandas": in_pandas, "lists": on_lists}


def measure(way: str, rows: int, limit: float) -> dict[str, float] | None:
    """Measures one way at one size in a process of its own; ``None`` when it takes too long or dies."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = {split: int(rows * share) for split, share in SHARES.items()} if way == "stage" else {"train": rows}
        write_data(Path(folder) / "data", sizes)
        command = [sys.executable, "-m", "benchmarks.checks", "--way", way, "--folder", str(Path(folder) / "data")]
        try:
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return None
        except subprocess.CalledProcessError as error:
            print(error.stderr[-500:], file=sys.stderr)
            return None
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def run_one(way: str, folder: Path) -> None:
    """Runs one way, and prints what it took."""
    started = time.perf_counter()
    import stages.validate.report  # noqa: F401

    imported, cpu = time.perf_counter(), time.process_time()
    WAYS[way](folder)
    seconds, cpu = time.perf_counter() - imported, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"import": imported - started, "seconds": seconds, "cpu": cpu, "peak": peak}))


def main() -> None:
    """Prints a table of all ways at all sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that one measurement may take")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        run_one(arguments.way, arguments.folder)
        return
    table = Table("way", "rows", "seconds", "rows/s", "times the size before", "processor s", "peak MB", "imports, s", title="Data checks")
    for way in arguments.ways:
        before: tuple[int, float] | None = None
        for rows in sorted(arguments.rows):
            found = measure(way, rows, arguments.limit)
            if found is None:
                table.add_row(way, f"{rows:,}", f"over {arguments.limit:.0f}, or died", "", "", "", "", "")
                break
            seconds = found["seconds"]
            grown = f"{seconds / before[1]:.1f} x for {rows / before[0]:.0f} x" if before else ""
            costs = f"{found['cpu']:.2f}", f"{found['peak']:,.0f}", f"{found['import']:.1f}"
            table.add_row(way, f"{rows:,}", f"{seconds:.2f}", f"{rows / seconds:,.0f}", grown, *costs)
            before = rows, seconds
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
