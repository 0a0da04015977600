"""Fetches the data of the line and writes its raw splits.

Reads what ``data.source`` names: the embedded sample, files under ``data/source/``, or a data set of the hub.
Writes ``data/raw/{train,validation,test}.parquet`` (the text columns, ``labels``, ``idx``; label names in the schema) and
``data/raw/source.json`` (where the rows came from, down to the commit).
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stages.download.labels import Encoding
from stages.download.raw import RawSplit
from stages.download.slices import Slice, refuse_overlaps, resolve, source_splits
from stages.download.sources import Source, Wanted, open_source
from stages.download.staging import Staged, stage
from tuneline.errors import DataError
from tuneline.files import replace_directory, write_json
from tuneline.params import Params
from tuneline.params.loading import load_params
from tuneline.paths import RAW, SPLITS, split_file
from tuneline.stage import run_stage

STAGING = "staging"


def download(params: Params, source: Source, folder: Path) -> dict[str, int]:
    """Reads every split of the source that is needed, once, and writes the splits of the line.

    Args:
        params: All parameters.
        source: Where rows come from.
        folder: An empty folder; three Parquet files and ``source.json`` are left in it.

    Returns:
        Rows per split.

    Raises:
        DataError: The data cannot be used as it is.
    """
    specs: dict[str, str] = params.data.splits.model_dump()
    staged = read_splits(params, source, specs, folder / STAGING)
    sizes = {name: split.rows for name, split in staged.items()}
    slices = {split: resolve(split, spec, sizes) for split, spec in specs.items()}
    refuse_overlaps(slices)
    for split in needing_labels(params):
        refuse_unlabelled(split, slices[split], staged)
    rows, about = write_splits(params, staged, slices, folder)
    shutil.rmtree(folder / STAGING)
    write_json(folder / "source.json", {"source": params.data.source, **source.provenance(), **about})
    return rows


def needing_labels(params: Params) -> list[str]:
    """The splits that are learned from, chosen by or reported on. Another one may come without labels."""
    return [split for split in SPLITS if split != "test" or params.evaluate.split == "test"]


def read_splits(params: Params, source: Source, specs: Mapping[str, str], staging: Path) -> dict[str, Staged]:
    """Reads each split of the source that a specification names into ``staging``."""
    drawn = {split: source_splits(split, spec) for split, spec in specs.items()}
    labelled = {name for split in needing_labels(params) for name in drawn[split]}
    staging.mkdir()
    staged: dict[str, Staged] = {}
    for name in dict.fromkeys(name for names in drawn.values() for name in names):
        wanted = wanted_columns(params, label_optional=name not in labelled)
        staged[name] = stage(source.read(name, wanted), wanted, staging / f"{len(staged)}.parquet")
        print(f"download: {staged[name].name}: {staged[name].rows:,} rows", flush=True)
    return staged


def wanted_columns(params: Params, label_optional: bool = False) -> Wanted:
    """What ``data`` asks of a source."""
    data = params.data
    return Wanted(tuple(data.text_columns), data.label_column, data.task == "regression", label_optional)


def refuse_unlabelled(split: str, slices: Sequence[Slice], staged: Mapping[str, Staged]) -> None:
    """Sees to it that a split has labels.

    Raises:
        DataError: It has none: nothing can be learned from it or scored on it.
    """
    for part in slices:
        if not staged[part.source].labelled:
            raise DataError(
                f"{staged[part.source].name} has no labels (all are -1 or missing), and it is to be the {split} split.",
                "Published test splits often have none: take another in data.splits, or report on validation (evaluate.split).",
            )


def write_splits(
    params: Params, staged: Mapping[str, Staged], slices: Mapping[str, list[Slice]], folder: Path
) -> tuple[dict[str, int], dict[str, Any]]:
    """Writes the three Parquet files.

    Returns:
        Rows per split, and what ``source.json`` says about them.
    """
    data = params.data
    regression = data.task == "regression"
    encoding = Encoding.numbers() if regression else Encoding.classes(staged, slices["train"], data.label_names)
    rows: dict[str, int] = {}
    about: dict[str, Any] = {}
    for position, split in enumerate(SPLITS):
        writer = RawSplit(wanted_columns(params), encoding, data.drop_incomplete)
        rows[split] = writer.write(split_file(folder, split), staged, slices[split], data.max_rows, params.seed + position)
        about[split] = {"from": getattr(data.splits, split), "rows": rows[split], "left_out": writer.left_out}
    return rows, {"splits": about, "label_names": encoding.labels.names}


def main() -> dict[str, float]:
    """Runs the stage on ``params.yaml``."""
    params = load_params()
    with replace_directory(RAW) as folder:
        rows = download(params, open_source(params.data, params.seed), folder)
    print("download: " + ", ".join(f"{split} {count:,}" for split, count in rows.items()) + " rows")
    return {"rows": sum(rows.values())}


if __name__ == "__main__":
    run_stage("download", main)
