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

import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tuneline.core.params import Params
from tuneline.core.params.data import DataParams
from tuneline.core.params.loading import load_params
from tuneline.core.paths import DOWNLOAD, GROUPS, METRICS, RAW, REPORTS, SPLITS
from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.files import publish_directory, replace_directory, working_directory
from tuneline.core.runtime.terminal import progress, say
from tuneline.core.stage.entry import run_stage
from tuneline.core.stage.launch import check_launch
from tuneline.core.stage.provenance import AppliedCorrections, RawSource, SplitSource, write_provenance
from tuneline.core.stage.records import Metrics, write_record
from tuneline.core.stage.tables import GROUP_COLUMN, LABELS, shard_file, write_numbers
from tuneline.model.tasks import task_with_names
from tuneline.rows.reading.labelled import LabelledColumns
from tuneline.rows.reading.rows import BadRowPolicy
from tuneline.rows.splits.corrections import Corrections
from tuneline.rows.splits.corrector import Corrector
from tuneline.rows.splits.files import Files
from tuneline.rows.splits.hub import Hub
from tuneline.rows.splits.raw_splits import LabelEncoder, RawWriter, RowSelection, divide_train
from tuneline.rows.splits.sample import SampleSource
from tuneline.rows.splits.source import SourceSplit, StagedSplit, stage_split, write_skipped

WORK = "work"
"""Temporary folder: copies of the splits of the source, and files of the raw splits."""
LIBRARIES = ("datasets", "pyarrow")
README = "The group of each row by data.split.by, as a number; no file for a split without groups.\n"
"""Keeps the folder, a dependency of the stage ``validate``: DVC restores no empty folder."""
SKIPPED = DOWNLOAD / "skipped.parquet"


Source = SampleSource | Files | Hub
"""A source gives splits with ``read``, and with ``provenance`` what ``source.json`` records.

It records neither times nor paths of this machine.
"""


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


def labelled_splits(params: Params) -> list[str]:
    """Return the splits that need labels: for training, model selection and the reported metrics."""
    if params.evaluate.split == "test":
        return list(SPLITS)
    return [split for split in SPLITS if split != "test"]


def read_splits(params: Params, source: Source, folder: Path) -> tuple[dict[str, StagedSplit], int]:
    """Read each split of the source that ``data.splits`` names into a folder.

    The rows that are left out are also listed if there are too many of them, which is an error.

    Returns:
        The copies, by split of the pipeline, and the number of rows that were left out.
    """
    specs = params.data.source_specs
    labelled = labelled_splits(params)
    staged: dict[str, StagedSplit] = {}
    read: dict[str, SourceSplit] = {}
    skipped = 0
    for split, name in specs.items():
        columns = source_columns(params, label_optional=split not in labelled, grouped=split == "train")
        read[name] = source.read(name, columns)
        try:
            staged[split] = stage_split(read[name], columns, folder / f"{split}.parquet")
        finally:
            before = skipped
            skipped = write_skipped(SKIPPED, read)

        message = f"download: {staged[split].name}: {staged[split].rows:,} rows"
        if skipped > before:
            message += f"; bad rows left out: {skipped - before:,}, in {SKIPPED}"
        say(message)
    return staged, skipped


def source_columns(params: Params, label_optional: bool = False, grouped: bool = False) -> LabelledColumns:
    """Return the columns that section ``data`` names.

    Args:
        params: All parameters.
        label_optional: True if the split needs no labels.
        grouped: True if the rows are divided; then the column that decides is among them.
    """
    data = params.data
    others = []
    if grouped and data.split is not None and data.split.column is not None:
        others.append(data.split.column)
    return LabelledColumns(
        tuple(data.text_columns),
        data.label_column,
        task=task_with_names(data.label_names, data.task),
        others=others,
        optional=[data.label_column] if label_optional else [],
        policy=BadRowPolicy(data.max_bad_share),
        sets=data.label_sets,
    )


def refuse_unlabelled(split: str, selection: RowSelection) -> None:
    """Refuse a split without labels: no model can be trained or evaluated on it."""
    if not selection.staged.labelled:
        raise DataError(
            f"{selection.staged.name} has no labels (all are -1 or missing), but the {split} split"
            " needs them.",
            "Published test splits often have none: name another in data.splits, or evaluate on"
            " validation (evaluate.split).",
        )


def refuse_constant(split: str, files: Sequence[Path]) -> None:
    """Refuse a split of a regression whose targets are all equal.

    Nothing is learned from such targets, and no model correlates with them.
    """
    targets: list[pa.Array] = []
    for path in files:
        targets += pq.read_table(path, columns=[LABELS])[LABELS].chunks
    values = pc.unique(pa.chunked_array(targets))
    if len(values) < 2:
        raise DataError(
            f"All targets of the {split} split are {values[0].as_py():g}.",
            "A regression needs different numbers; check data.label_column, data.splits and data.max_rows.",
        )


def write_splits(
    params: Params, selections: Mapping[str, RowSelection], folder: Path, groups: Path
) -> tuple[dict[str, SplitSource], tuple[str, ...] | None, AppliedCorrections | None]:
    """Write the Parquet files of the three splits.

    Returns:
        The origin of each split, the class names, and what was corrected.
    """
    data = params.data
    encoder = LabelEncoder.of(selections["train"], data)
    labels = encoder.labels
    corrector = Corrector(Corrections.read(), data.text_columns, labels)

    splits: dict[str, SplitSource] = {}
    for position, split in enumerate(SPLITS):
        written = folder / WORK / split
        writer = RawWriter(source_columns(params), data.shard_rows, encoder, corrector)
        rows = writer.write(written, selections[split], data.max_rows, params.seed + position)
        if writer.groups is not None:
            write_numbers(groups / f"{split}.parquet", GROUP_COLUMN, writer.groups)

        # shards, whose names in data/raw have their number: known only now
        count = math.ceil(rows / data.shard_rows)
        files = [shard_file(folder, split, number, count) for number in range(count)]
        for number, path in enumerate(files):
            (written / f"{number:05d}.parquet").replace(path)
        if not labels.has_classes and split in {"train", params.evaluate.split}:
            refuse_constant(split, files)

        specification = data.source_specs.get(split, data.splits.train)
        splits[split] = SplitSource(specification=specification, rows=rows, left_out=writer.left_out)
    return splits, labels.names, corrector.report()


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
