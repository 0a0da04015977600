"""Fetch the data of the pipeline and write its raw splits.

Reads what ``data.source`` names: the embedded sample, files under ``data/source/``, or a data set of the hub.
Applies the corrections in ``data/corrections/``: labels that people changed, rows that are left out. The
source stays as it is. Writes ``data/raw/{train,validation,test}.parquet`` (the text columns, ``labels``,
``idx``; label names in the schema), or of a split with more than ``data.shard_rows`` rows
``train-00000-of-00012.parquet`` and so on, ``data/raw/source.json`` (where the rows came from, down to the
commit, and what was corrected), ``reports/download/skipped.parquet`` (bad rows that were left out),
``reports/download/groups/`` (which rows are of one group, by ``data.split.by``) and
``metrics/download.json``.
"""

import shutil
from pathlib import Path

from tuneline.core.params import Params
from tuneline.core.params.data import DataParams
from tuneline.core.params.loading import load_params
from tuneline.core.paths import GROUPS, METRICS, RAW, REPORTS
from tuneline.core.runtime.files import publish_directory, replace_directory, working_directory
from tuneline.core.runtime.terminal import progress, say
from tuneline.core.stage.entry import run_stage
from tuneline.core.stage.launch import check_launch
from tuneline.core.stage.provenance import RawSource, write_provenance
from tuneline.core.stage.records import Metrics, write_record
from tuneline.rows.splits.files import Files
from tuneline.rows.splits.hub import Hub
from tuneline.rows.splits.raw_splits import WORK, RowSelection, divide_train, refuse_unlabelled, write_splits
from tuneline.rows.splits.sample import SampleSource
from tuneline.rows.splits.source import Source, labelled_splits, read_splits

LIBRARIES = ("datasets", "pyarrow")
README = "The group of each row by data.split.by, as a number; no file for a split without groups.\n"
"""Keeps the folder, a dependency of the stage ``validate``: DVC restores no empty folder."""


def open_source(params: DataParams, seed: int) -> Source:
    """Open the source that ``data.source`` names. Only the libraries that it needs are imported."""
    match params.source:
        case "sample":
            return SampleSource(params.sample, seed)
        case "files":
            return Files(params)
        case "hub":
            return Hub(str(params.path), params.name, params.revision)


def download(params: Params, source: Source, folder: Path, groups: Path) -> dict[str, int]:
    """Read every required split of the source once, and write the splits of the pipeline.

    The empty ``folder`` gets the Parquet files and ``source.json``, the empty folder ``groups`` the group of
    each row.

    Returns:
        The number of rows of each split, and of the rows that are left out.
    """
    # source
    staged, skipped = read_splits(params, source, folder / WORK)

    # rows of each split
    with progress("download: dividing the rows by data.split"):
        selections = divide_train(params, staged["train"])
    for split in params.data.source_specs:
        if split != "train":
            selections[split] = RowSelection(staged[split])
    for split in labelled_splits(params):
        refuse_unlabelled(split, selections[split])

    # raw splits
    splits, label_names, applied = write_splits(params, selections, folder, groups)
    if label_names is not None:
        params.check_class_names(label_names)

    # origin
    file_rows: dict[str, int] = {}
    for staged_split in staged.values():
        file_rows |= staged_split.file_rows
    values = {
        "source": params.data.source,
        **source.provenance(file_rows),
        "splits": splits,
        "label_names": label_names,
        "corrections": applied,
    }
    if params.data.split is not None:
        values["split"] = {**params.data.split.model_dump(), "seed": params.seed}
    write_record(folder / "source.json", RawSource.model_validate(values))
    shutil.rmtree(folder / WORK)
    counts = {f"{name}_rows": split.rows for name, split in splits.items()}
    counts["bad_rows"] = skipped
    return counts


def record_corrections() -> None:
    """Write the provenance with the corrections that ``main`` has applied."""
    corrections = RawSource.read(RAW / "source.json").corrections
    write_provenance("download", LIBRARIES, corrections=corrections)


def main() -> dict[str, float]:
    """Run the stage on ``params.yaml``."""
    params = load_params()
    check_launch(params.train.launch)
    metrics = METRICS / "download.json"
    metrics.unlink(missing_ok=True)
    source = open_source(params.data, params.seed)
    with (
        replace_directory(RAW) as folder,
        # not beside its target, which is inside of an out: a killed run leaves nothing there
        working_directory(REPORTS / GROUPS.name) as groups,
    ):
        (groups / "README.md").write_text(README, encoding="utf-8")
        counts = download(params, source, folder, groups)
        GROUPS.parent.mkdir(parents=True, exist_ok=True)
        publish_directory(groups, GROUPS)

    write_record(metrics, Metrics.of(counts))
    train = counts["train_rows"]
    validation = counts["validation_rows"]
    test = counts["test_rows"]
    say(f"download: train {train:,}, validation {validation:,}, test {test:,} rows")
    return {"rows": train + validation + test}


if __name__ == "__main__":
    run_stage("download", main, record_corrections)
