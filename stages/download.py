"""Fetches the data of the line and writes its raw splits.

Reads what ``data.source`` names: the embedded sample, files under ``data/source/``, or a data set of the hub.
Writes ``data/raw/{train,validation,test}.parquet`` (the text columns, ``labels``, ``idx``; label names in the schema) and
``data/raw/source.json`` (where the rows came from, down to the commit).
"""

import shutil
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stages.entry import run_stage
from stages.errors import DataError
from stages.outs import replace_directory, write_json
from stages.params import Params
from stages.params.loading import load_params
from stages.paths import RAW, SPLITS, split_file
from stages.sources import Source, Wanted, open_source
from stages.sources.labels import encode, names_in, sorted_names
from stages.sources.reading import rebatch
from stages.sources.slices import Slice, refuse_overlaps, resolve, source_splits
from stages.sources.staging import INDEX, Staged, stage
from stages.tables import LABELS, Labels, raw_schema, write_batches


def download(params: Params, source: Source, folder: Path) -> dict[str, int]:
    """Reads every split of the source that is needed, and writes the splits of the line.

    Args:
        params: All parameters.
        source: Where rows come from.
        folder: An empty folder; three Parquet files and ``source.json`` are written to it.

    Returns:
        Rows per split.

    Raises:
        DataError: The data cannot be used as it is.
    """
    specs = params.data.splits.model_dump()
    staged = read_splits(params, source, folder)
    slices = {split: resolve(split, specs[split], {name: it.rows for name, it in staged.items()}) for split in SPLITS}
    refuse_overlaps(slices)
    labels = label_names(params, staged, slices["train"])
    rows = {split: write_split(params, staged, slices[split], labels, split_file(folder, split)) for split in SPLITS}
    write_json(folder / "source.json", describe(params, source, specs, rows, labels))
    return rows


def read_splits(params: Params, source: Source, folder: Path) -> dict[str, Staged]:
    """Reads the splits of the source that ``data.splits`` names, each once, into ``folder/staging``."""
    data = params.data
    needed = {name: split for split in SPLITS for name in source_splits(split, getattr(data.splits, split))}
    staging = folder / "staging"
    staging.mkdir()
    wanted = Wanted(tuple(data.text_columns), data.label_column, data.task == "regression")
    return {name: stage(source.read(name, wanted), wanted, staging / f"{position}.parquet") for position, name in enumerate(needed)}


def label_names(params: Params, staged: Mapping[str, Staged], train: list[Slice]) -> Labels:
    """The class names: those given, else those of the source, else those of the train split, sorted."""
    if params.data.task == "regression":
        return Labels(None)
    found: set[str] = set()
    for part in train:
        found |= names_in(staged[part.source], [part])
    return Labels(sorted_names(found))


def write_split(params: Params, staged: Mapping[str, Staged], slices: list[Slice], labels: Labels, path: Path) -> int:
    """Writes one split of the line and returns its number of rows."""
    schema = raw_schema(params.data.text_columns, labels)
    batches = (
        to_raw(batch, schema, labels, staged[part.source], params.data.label_column)
        for part in slices
        for batch in staged[part.source].batches(part)
    )
    return write_batches(path, schema, rebatch(batches, schema))


def to_raw(batch: pa.RecordBatch, schema: pa.Schema, labels: Labels, staged: Staged, label_column: str) -> pa.RecordBatch:
    """A batch as it stands in ``data/raw``."""
    text = batch.columns[: len(schema) - 2]
    return pa.record_batch([*text, encode(batch, labels, staged, label_column), batch[INDEX]], schema=schema)


def describe(params: Params, source: Source, specs: Mapping[str, str], rows: Mapping[str, int], labels: Labels) -> dict[str, Any]:
    """What ``source.json`` says."""
    splits = {split: {"from": specs[split], "rows": rows[split]} for split in SPLITS}
    return {"source": params.data.source, **source.provenance(), "splits": splits, "label_names": labels.names}


def main() -> dict[str, float]:
    """Runs the stage on ``params.yaml``."""
    params = load_params()
    with replace_directory(RAW) as folder:
        rows = download(params, open_source(params.data, params.seed), folder)
        shutil.rmtree(folder / "staging")
    print("download: " + ", ".join(f"{split} {count:,} rows" for split, count in rows.items()))
    return {"rows": sum(rows.values())}


if __name__ == "__main__":
    run_stage("download", main)
