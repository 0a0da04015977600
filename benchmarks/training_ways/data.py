"""Tokenized rows that all methods train on, in the format of the stage ``tokenize``."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from tuneline.core.stage.tables import write_table
from tuneline.model.tasks import Classification
from tuneline.model.tasks.columns import tokenized_schema

SHARED = Path(__file__).resolve().parents[3] / "shared"
TOKENIZER = SHARED / "hub/models/google-bert/bert-base-uncased"
VOCABULARY = 30_522
LABELS = Classification(("not_equivalent", "equivalent"))
Columns = dict[str, list[object]]


def write_splits(folder: Path, rows: int | None) -> None:
    """Write ``train.parquet`` and ``validation.parquet``: MRPC if it is there, else random rows."""
    for split, count in (("train", 3668), ("validation", 408)):
        columns = (
            mrpc(split) if (SHARED / "data/mrpc").is_dir() and TOKENIZER.is_dir() else random_rows(count)
        )
        table = pa.table(columns, schema=tokenized_schema(True, LABELS))
        write_table(table.slice(0, rows), folder / f"{split}.parquet")


def mrpc(split: str) -> Columns:
    """Return the pairs of MRPC with the tokenizer of bert-base-uncased."""
    from transformers import AutoTokenizer

    lines = (SHARED / f"data/mrpc/{split}.tsv").read_text(encoding="utf-8-sig").splitlines()[1:]
    labels, _, _, first, second = zip(*(line.split("\t") for line in lines), strict=True)
    encoded = AutoTokenizer.from_pretrained(TOKENIZER)(
        list(first), list(second), truncation=True, max_length=128
    )
    return {**encoded, "labels": [int(label) for label in labels]}


def random_rows(rows: int) -> Columns:
    """Return random ids, with lengths distributed as in MRPC (mean 53, standard deviation 12)."""
    random = np.random.default_rng(rows)
    lengths = random.normal(53, 12, rows).clip(20, 103).astype(int)
    ids = [random.integers(1000, VOCABULARY, length).tolist() for length in lengths]
    types = [[0] * (length // 2) + [1] * (length - length // 2) for length in lengths]
    masks = [[1] * length for length in lengths]
    return {
        "input_ids": ids,
        "attention_mask": masks,
        "token_type_ids": types,
        "labels": random.integers(2, size=rows).tolist(),
    }
