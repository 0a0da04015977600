"""Derives tables of scalar columns from the splits, and attaches the expectations that Great Expectations checks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from great_expectations.expectations.expectation import Expectation

from stages.validate.builders import Facts, RawFacts, Reference, TokenizedFacts
from stages.validate.checks import TableKind, expectations
from stages.validate.classes import Classes
from stages.validate.columns import FrameColumns, StoredColumns, column_writer, stored, write_columns
from stages.validate.encodings import encoding_notes, is_mixed
from stages.validate.labels import LabelFindings, examine_labels
from stages.validate.near_duplicates import NearDuplicates, find_near_duplicates
from stages.validate.profile import labels_as, length_limits, profile_split
from stages.validate.raw import RawSplit, copy_columns, copy_notes, read_raw
from stages.validate.schemas import described, schema_frame
from stages.validate.tokenized import read_tokenized
from stages.validate.tokenizer import Vocabulary, decoding_matches
from tuneline.engines import engine
from tuneline.errors import DataError
from tuneline.files.schemas import LABELS, LabelSchema, raw_schema, tokenized_schema
from tuneline.files.shards import SplitReader
from tuneline.params import Params
from tuneline.paths import SPLITS, TOKENIZER
from tuneline.records.profile import Profile, SplitProfile
from tuneline.terminal import phase
from tuneline.text import VocabularyCounts


@dataclass(frozen=True)
class DataFolders:
    """The folders of the raw and of the tokenized splits, and the one of what is derived from them, which is removed in the end."""

    raw: Path
    tokenized: Path
    derived: Path

    @property
    def tokenizer(self) -> Path:
        """Folder of the tokenizer."""
        return self.tokenized / TOKENIZER.name

    def splits(self) -> dict[str, dict[str, SplitReader]]:
        """Open all splits, by kind and name."""
        return {
            kind: {split: SplitReader.open(folder, split, stage) for split in SPLITS}
            for kind, folder, stage in (("raw", self.raw, "download"), ("tokenized", self.tokenized, "tokenize"))
        }


@dataclass(frozen=True)
class Table:
    """Scalar columns of one split, and the expectations that they are checked against.

    Attributes:
        kind: Kind of table, see ``TableKind``. The rows of ``raw`` and ``tokenized`` are those of the split.
        split: Name of the split.
        columns: The columns.
        expectations: The expectations; ``expectation.meta["check"]`` is the key of the check.
        notes: What a check found beside its measurement, as plain text, one line each, by key of the check. Shown even if it passes.
    """

    kind: TableKind
    split: str
    columns: FrameColumns | StoredColumns
    expectations: Sequence[Expectation]
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the suite, for example ``tokenized-train``."""
        return f"{self.kind}-{self.split}"


@dataclass(frozen=True)
class DerivedData:
    """Everything that is derived from the data.

    Attributes:
        params: All parameters.
        folders: Folders of the data.
        labels: The label schema.
        raw: Raw splits with the expected columns, by name.
        profiles: Their profiles.
        promoted: Profile of the promoted model's data, if there is one.
        classes: The classes; ``None`` for a regression.
        tables: Tables to check.
    """

    params: Params
    folders: DataFolders
    labels: LabelSchema
    raw: Mapping[str, RawSplit]
    profiles: Mapping[str, SplitProfile]
    promoted: Profile | None
    classes: Classes | None
    tables: list[Table]

    def may_be_unlabelled(self, split: str) -> bool:
        """Return True for a split that is neither trained on nor reported on."""
        return split not in ("train", self.params.evaluate.split)


def derive_tables(params: Params, folders: DataFolders, promoted: Profile | None) -> DerivedData:
    """Read all splits and derive the tables to check.

    Args:
        params: All parameters.
        folders: Folders of the data.
        promoted: Profile of the promoted model's data, if there is one.
    """
    vocabulary = Vocabulary.read(folders.tokenizer, len(params.data.text_columns))
    splits = folders.splits()
    labels = _train_labels(params, splits["raw"]["train"])
    expected = {"raw": raw_schema(params.data.text_columns, labels), "tokenized": tokenized_schema(vocabulary.has_type_ids, labels)}
    readable = {
        kind: {name: split for name, split in of_kind.items() if described(split.schema) == described(expected[kind])}
        for kind, of_kind in splits.items()
    }
    with engine(params.run):
        raw = read_raw(readable["raw"], params.data.text_columns, folders.derived / "raw", params.run)
        tokenized = read_tokenized(readable["tokenized"], vocabulary, folders.derived / "tokenized", params.run)
    profiles = {split: profile_split(split_data, labels) for split, split_data in raw.items()}
    data = DerivedData(params, folders, labels, raw, profiles, promoted, Classes.of(raw, labels, params), [])
    for split in SPLITS:
        frame = schema_frame({kind: (expected[kind], splits[kind][split].schema) for kind in expected})
        data.tables.append(_table("columns", split, FrameColumns(frame), params))
    phase("near-duplicates")
    found = find_near_duplicates(
        [split_data.words() for split_data in raw.values()],
        [split_data.unordered_keys for split_data in raw.values()],
        params.validate_.near_duplicates.similarity,
    )
    data.tables.extend(_raw_table(data, split, near_duplicates) for split, near_duplicates in zip(raw, found, strict=True))
    data.tables.extend(
        _tokenized_table(data, splits["raw"][name], splits["tokenized"][name], columns, vocabulary) for name, columns in tokenized.items()
    )
    data.tables.extend(_between_tables(data))
    return data


def _table(
    kind: TableKind,
    split: str,
    columns: FrameColumns | StoredColumns,
    params: Params,
    facts: Facts | None = None,
    *,
    notes: Mapping[str, Sequence[str]] | None = None,
) -> Table:
    return Table(kind, split, columns, list(expectations(kind, params.validate_, facts or Facts(columns.names))), notes or {})


def _train_labels(params: Params, train: SplitReader) -> LabelSchema:
    """Return the label schema of train, which the other splits must equal; without labels if train has lost them."""
    try:
        return LabelSchema.of(train.schema)
    except DataError:
        return LabelSchema(None if params.data.task == "regression" else ())


def _raw_table(data: DerivedData, split: str, near_duplicates: NearDuplicates) -> Table:
    params, current, labels = data.params, data.raw[split], data.labels
    copies = copy_columns(data.raw, split, near_duplicates, labels)
    columns = current.columns.with_columns(write_columns(data.folders.derived / "copies" / f"{split}.parquet", copies))
    notes = {**copy_notes(data.raw, copies), **encoding_notes(current, params.data.text_columns)}
    if is_mixed(current, params.validate_):
        columns = columns.with_columns(columns, mixed_characters="broken_characters")
    if data.classes or labels.is_regression:
        columns = columns.with_columns(_label_columns(data, split))
    if data.classes:
        notes |= data.classes.notes(split, current)
    train, promoted = data.profiles.get("train"), data.promoted
    facts = RawFacts(
        columns=columns.names,
        split=split,
        labels=labels,
        is_labelled=current.is_labelled,
        may_be_unlabelled=data.may_be_unlabelled(split),
        lengths=length_limits(train.characters) if train else None,
        train=Reference(train.labels, train.characters) if train and split != "train" else None,
        promoted=Reference(labels_as(promoted, labels, split), promoted.splits[split].characters)
        if promoted and split in promoted.splits
        else None,
    )
    return _table("raw", split, columns, params, facts, notes=notes)


def _label_columns(data: DerivedData, split: str) -> StoredColumns:
    """Return the columns about the label of each row, which depend on those of all splits."""
    current, path = data.raw[split], data.folders.derived / "labels" / f"{split}.parquet"
    may_have_label = current.is_labelled or data.may_be_unlabelled(split)
    with column_writer(path) as write:
        for rows in current.columns.frames([LABELS, "is_header"]):
            is_number = {"is_number": (np.isfinite(rows[LABELS].to_numpy()) & may_have_label).astype(np.int64)}
            write(data.classes.columns(split, rows) if data.classes else is_number)
    return stored(path)


def _tokenized_table(data: DerivedData, raw: SplitReader, split: SplitReader, columns: StoredColumns, vocabulary: Vocabulary) -> Table:
    params, folders, current = data.params, data.folders, data.raw.get(split.split)
    if current is not None and current.rows == columns.rows:
        decoded = decoding_matches(raw, split, params, folders.tokenizer, vocabulary)
        columns = columns.with_columns(write_columns(folders.derived / "decoded" / f"{split.split}.parquet", {"decoded": decoded}))
        columns = columns.with_columns(current.columns, raw_labels=LABELS)
    facts = TokenizedFacts(columns.names, vocabulary, params.tokenize.max_length, raw.rows)
    return _table("tokenized", split.split, columns, params, facts)


def _between_tables(data: DerivedData) -> Iterator[Table]:
    train, promoted = data.raw.get("train"), data.promoted
    phase("labels")
    found = examine_labels(data.raw, data.params.data.text_columns, data.labels, data.params.validate_)
    for split, current in data.raw.items():
        reference, findings = promoted.splits.get(split) if promoted else None, found.get(split, LabelFindings())
        frame = between_frame(current, train.vocabulary if train and split != "train" else None, reference).assign(**findings.columns)
        table = _table("between", split, FrameColumns(frame), data.params, notes=findings.notes)
        if table.expectations:
            yield table


def between_frame(split: RawSplit, train: VocabularyCounts | None, promoted: SplitProfile | None) -> pd.DataFrame:
    """Return one row with a column per comparison of a split with train, and with the promoted model's data.

    ``vocabulary_overlap`` and ``promoted_vocabulary`` are fractions of the occurrences of all words. The latter is relative to the
    coverage that the promoted split itself reaches with its most common words.
    """
    columns: dict[str, float] = {}
    if train is not None:
        columns["vocabulary_overlap"] = split.vocabulary.coverage(train.hashes)
    if promoted is not None:
        columns["promoted_rows"] = split.rows / max(promoted.rows, 1)
        columns["promoted_vocabulary"] = split.vocabulary.coverage(promoted.words.word_keys) / max(promoted.words.known, 1e-9)
    return pd.DataFrame([columns])
