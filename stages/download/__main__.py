"""Fetch the data of the pipeline and write its raw splits.

Reads what ``data.source`` names: the embedded sample, files under ``data/source/``, or a data set of the hub.
Applies the corrections in ``data/corrections/``: labels that people changed, rows that are left out. The
source stays as it is. Writes ``data/raw/{train,validation,test}.parquet`` (the text columns, ``labels``,
``idx``; label names in the schema), or of a split with more than ``data.shard_rows`` rows
``train-00000-of-00012.parquet`` and so on, ``data/raw/source.json`` (where the rows came from, down to the
commit, and what was corrected), ``reports/download/skipped.parquet`` (bad rows that were left out) and
``metrics/download.json``.
"""

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stages.download.files import Files
from stages.download.hub import Hub
from stages.download.raw import Corrector, LabelEncoder, RawWriter, RowSelection, divide_train, remove_classes
from stages.download.sample import SampleSource
from stages.download.source import (
    SkippedRows,
    StagedSplit,
    check_rows,
    open_skipped,
    refuse_overlaps,
    resolve_split,
    source_splits,
    stage_split,
)
from tuneline.analysis.corrections import Corrections
from tuneline.core.atomic_files import replace_directory
from tuneline.core.errors import DataError
from tuneline.core.launch import check_launch
from tuneline.core.paths import DOWNLOAD, METRICS, RAW, SPLITS
from tuneline.core.raw_source import AppliedCorrections, RawSource, SplitSource
from tuneline.core.records import Metrics
from tuneline.core.stage import run_stage
from tuneline.core.tables import LABELS, shard_file
from tuneline.core.terminal import progress, say
from tuneline.params import Params
from tuneline.params.data import DataParams
from tuneline.params.loading import load_params
from tuneline.readers.labelled import LabelledColumns
from tuneline.readers.rows import BadRowPolicy, listed
from tuneline.tasks import TASKS

WORK = "work"
"""Folder for the copies of the source's splits (``staged``) and for the files of the raw splits (``written``); removed at the end."""
LIBRARIES = ("datasets", "pyarrow")
SKIPPED = DOWNLOAD / "skipped.parquet"


Source = SampleSource | Files | Hub
"""A source gives splits with ``read``, and with ``provenance`` what ``source.json`` records: neither times nor paths of this machine."""


def open_source(params: DataParams, seed: int) -> Source:
    """Open the source that ``data.source`` names. Only the libraries that it needs are imported."""
    match params.source:
        case "sample":
            return SampleSource(params.sample, seed)
        case "files":
            return Files(params)
        case "hub":
            return Hub(str(params.path), params.name, params.revision)


def download(params: Params, source: Source, folder: Path, skipped: SkippedRows) -> dict[str, int]:
    """Read every required split of the source once, write the splits of the pipeline, and return their numbers of rows.

    The empty ``folder`` gets the Parquet files and ``source.json``, ``skipped`` the rows that are left out.
    """
    specs, corrections = params.data.source_specs, Corrections.read()
    staged = read_splits(params, source, specs, folder / WORK / "staged", skipped)
    sizes = {name: split.rows for name, split in staged.items()}
    slices = {split: resolve_split(split, spec, sizes) for split, spec in specs.items()}
    refuse_overlaps(slices)
    with progress("download: dividing the rows by data.split"):
        divided, ungrouped = divide_train(params, slices["train"], staged)
    selections = {split: RowSelection(parts) for split, parts in slices.items()} | divided
    for split in labelled_splits(params):
        refuse_unlabelled(split, selections[split], staged)
    splits, label_names, applied = write_splits(params, staged, selections, corrections, folder)
    rows = {name: count for split in staged.values() for name, count in split.file_rows.items()}
    values = {
        "source": params.data.source,
        **source.provenance(rows),
        "splits": splits,
        "label_names": label_names,
        "corrections": applied,
    }
    if params.data.split is not None:
        values["split"] = {
            **params.data.split.model_dump(),
            "seed": params.seed,
            "rows_without_group": ungrouped,
        }
    RawSource.model_validate(values).write(folder / "source.json")
    shutil.rmtree(folder / WORK)
    return {name: split.rows for name, split in splits.items()}


def labelled_splits(params: Params) -> list[str]:
    """Return the splits that need labels: those for training, model selection and the reported metrics."""
    return [split for split in SPLITS if split != "test" or params.evaluate.split == "test"]


def read_splits(
    params: Params, source: Source, specs: Mapping[str, str], staging: Path, skipped: SkippedRows
) -> dict[str, StagedSplit]:
    """Read each split of the source that a specification names into ``staging``."""
    sources = {split: source_splits(split, spec) for split, spec in specs.items()}
    labelled = {name for split in labelled_splits(params) for name in sources.get(split, sources["train"])}
    staged: dict[str, StagedSplit] = {}
    for name in dict.fromkeys(name for names in sources.values() for name in names):
        columns = source_columns(
            params, label_optional=name not in labelled, grouped=name in sources["train"]
        )
        before, path = skipped.count, staging / f"{len(staged)}.parquet"
        staged[name] = stage_split(
            source.read(name, columns), columns, path, params.data, partial(skipped.add, name)
        )
        check_rows(staged[name], columns)
        count = skipped.count - before
        bad = f", {count:,} bad row{'s' * (count > 1)} left out: {SKIPPED}" if count else ""
        say(f"download: {staged[name].name}: {staged[name].rows:,} rows{bad}")
    return staged


def source_columns(params: Params, label_optional: bool = False, grouped: bool = False) -> LabelledColumns:
    """Return the columns that section ``data`` names; ``data.split.by`` is among them if the rows are divided (``grouped``)."""
    data = params.data
    return LabelledColumns(
        tuple(data.text_columns),
        data.label_column,
        kind=TASKS[data.task],
        others=(
            {data.split.by: "data.split.by"}
            if data.split is not None and data.split.by is not None and grouped
            else {}
        ),
        optional=[data.label_column] if label_optional else [],
        sparse=data.bad_rows == "skip",
        policy=BadRowPolicy(data.bad_rows, data.max_bad_share),
    )


def refuse_unlabelled(split: str, selection: RowSelection, staged: Mapping[str, StagedSplit]) -> None:
    """Refuse a split without labels: no model can be trained or evaluated on it."""
    for part in selection.slices:
        if not staged[part.source].labelled:
            raise DataError(
                f"{staged[part.source].name} has no labels (all are -1 or missing), but the {split} split"
                " needs them.",
                "Published test splits often have none: name another in data.splits, or evaluate on"
                " validation (evaluate.split).",
            )


def refuse_constant(split: str, files: Sequence[Path]) -> None:
    """Refuse a split of a regression whose targets are all equal: nothing is learned from it, and no model correlates with it."""
    values = pc.unique(
        pa.chunked_array(
            [chunk for path in files for chunk in pq.read_table(path, columns=[LABELS])[LABELS].chunks]
        )
    )
    if len(values) < 2:
        problem = f"All targets of the {split} split are {values[0].as_py():g}."
        raise DataError(
            problem,
            "A regression needs different numbers; check data.label_column, data.splits and data.max_rows.",
        )


def write_splits(
    params: Params,
    staged: Mapping[str, StagedSplit],
    selections: Mapping[str, RowSelection],
    corrections: Corrections,
    folder: Path,
) -> tuple[dict[str, SplitSource], tuple[str, ...] | None, AppliedCorrections | None]:
    """Write the Parquet files of the three splits; return the origin of each, the class names, and what was corrected."""
    data, written = params.data, folder / WORK / "written"
    encoder = LabelEncoder.of(staged, selections["train"], data)
    corrector = Corrector(corrections, data.text_columns, encoder.labels)
    splits: dict[str, SplitSource] = {}
    files: list[tuple[Path, Path]] = []
    for position, split in enumerate(SPLITS):
        writer = RawWriter(source_columns(params), data.shard_rows, encoder, corrector)
        rows = writer.write(written / split, staged, selections[split], data.max_rows, params.seed + position)
        count = -(-rows // data.shard_rows)
        shards = [
            (written / split / f"{number:05d}.parquet", shard_file(folder, split, number, count))
            for number in range(count)
        ]
        if encoder.labels.correlates and split in ("train", params.evaluate.split):
            refuse_constant(split, [path for path, _ in shards])
        files += shards
        specification = data.source_specs.get(split, data.splits.train)
        splits[split] = SplitSource(specification=specification, rows=rows, left_out=writer.left_out)
    applied, labels = corrector.report(), encoder.labels
    if data.label_names is None and (empty := corrector.emptied_classes()):
        say(
            f"download: the corrections leave no row of {listed(map(labels.label_text, empty))}: no class any"
            " more."
        )
        labels = remove_classes(files, labels, empty)
    else:
        for path, target in files:
            path.replace(target)
    return splits, labels.names, applied


def applied_corrections() -> AppliedCorrections | None:
    """Return what ``main`` has corrected."""
    return RawSource.read(RAW / "source.json").corrections


def main() -> dict[str, float]:
    """Run the stage on ``params.yaml``."""
    params = load_params()
    check_launch(params.train.launch, params.train.optimizer)
    metrics = METRICS / "download.json"
    metrics.unlink(missing_ok=True)
    source = open_source(params.data, params.seed)
    with open_skipped(SKIPPED) as skipped, replace_directory(RAW) as folder:
        rows = download(params, source, folder, skipped)
    Metrics.of(
        {**{f"{split}_rows": count for split, count in rows.items()}, "bad_rows": skipped.count}
    ).write(metrics)
    say("download: " + ", ".join(f"{split} {count:,}" for split, count in rows.items()) + " rows")
    return {"rows": sum(rows.values())}


if __name__ == "__main__":
    run_stage("download", main, libraries=LIBRARIES, corrections=applied_corrections)
