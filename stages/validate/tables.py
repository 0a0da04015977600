"""Reads the data in batches, derives tables of scalar columns, and attaches the expectations that Great Expectations checks."""

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from great_expectations.expectations.expectation import Expectation

from stages.validate.builders import Facts, RawFacts, Reference, TokenizedFacts
from stages.validate.checks import TableKind, expectations
from stages.validate.profile import labels_as, length_limits, profile_split
from stages.validate.raw import RawSplit, copy_columns, read_raw
from stages.validate.tokenized import tokenized_columns
from stages.validate.tokenizer import Vocabulary, decoding_matches
from tuneline.errors import DataError
from tuneline.files.schemas import LabelSchema, raw_schema, read_labels, tokenized_schema
from tuneline.params import Params
from tuneline.paths import SPLITS, TOKENIZER, split_file
from tuneline.records.profile import Profile, SplitProfile
from tuneline.terminal import phase
from tuneline.text import VocabularyCounts


@dataclass(frozen=True)
class DataFolders:
    """The folders of the raw and of the tokenized splits."""

    raw: Path
    tokenized: Path

    @property
    def tokenizer(self) -> Path:
        """Folder of the tokenizer."""
        return self.tokenized / TOKENIZER.name

    def schemas(self, split: str) -> dict[str, pa.Schema]:
        """Read the schemas of a split's two files, by kind."""
        return {kind: pq.read_schema(split_file(folder, split)) for kind, folder in (("raw", self.raw), ("tokenized", self.tokenized))}


@dataclass(frozen=True)
class Table:
    """Scalar columns of one split, and the expectations that they are checked against.

    Attributes:
        kind: Kind of table, see ``TableKind``.
        split: Name of the split.
        frame: The columns. ``row`` numbers the rows; in ``raw`` and ``tokenized`` these are the rows of the split.
        expectations: The expectations; ``expectation.meta["check"]`` is the key of the check.
        notes: What a check found beside its measurement, as plain text, one line each, by key of the check. Shown even if it passes.
    """

    kind: TableKind
    split: str
    frame: pd.DataFrame
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
        tables: Tables to check.
    """

    params: Params
    folders: DataFolders
    labels: LabelSchema
    raw: Mapping[str, RawSplit]
    profiles: Mapping[str, SplitProfile]
    promoted: Profile | None
    tables: list[Table]


def derive_tables(params: Params, folders: DataFolders, promoted: Profile | None) -> DerivedData:
    """Read all splits and derive the tables to check.

    Args:
        params: All parameters.
        folders: Folders of the data.
        promoted: Profile of the promoted model's data, if there is one.
    """
    vocabulary = Vocabulary.read(folders.tokenizer, len(params.data.text_columns))
    labels = _train_labels(params, split_file(folders.raw, "train"))
    expected = {"raw": raw_schema(params.data.text_columns, labels), "tokenized": tokenized_schema(vocabulary.has_type_ids, labels)}
    actual = {split: folders.schemas(split) for split in SPLITS}
    readable = {kind: [split for split in SPLITS if described(expected[kind]) == described(actual[split][kind])] for kind in expected}
    raw = {split: read_raw(split_file(folders.raw, split), params.data.text_columns) for split in readable["raw"]}
    profiles = {split: profile_split(split_data, labels) for split, split_data in raw.items()}
    data = DerivedData(params, folders, labels, raw, profiles, promoted, [])
    for split in SPLITS:
        frame = schema_frame({kind: (expected[kind], actual[split][kind]) for kind in expected})
        data.tables.append(_table("columns", split, frame, params, Facts(frozenset(frame.columns))))
    data.tables.extend(_raw_table(data, split) for split in raw)
    data.tables.extend(_tokenized_table(data, split, vocabulary) for split in readable["tokenized"])
    data.tables.extend(_between_tables(data))
    return data


def _table(kind: TableKind, split: str, frame: pd.DataFrame, params: Params, facts: Facts) -> Table:
    return Table(kind, split, frame, list(expectations(kind, params.validate_, facts)))


def _train_labels(params: Params, train: Path) -> LabelSchema:
    """Return the label schema of train, which the other splits must equal; without labels if train has lost them."""
    try:
        return read_labels(train)
    except DataError:
        return LabelSchema(None if params.data.task == "regression" else ())


def _raw_table(data: DerivedData, split: str) -> Table:
    phase(f"copies of the rows of {split}")
    params, current, labels = data.params, data.raw[split], data.labels
    may_be_unlabelled = split not in ("train", params.evaluate.split)
    copies = copy_columns(
        data.raw, split, params=params.validate_, folder=data.folders.raw, text_columns=params.data.text_columns, labels=labels
    )
    frame = current.frame.assign(**copies)
    if labels.is_regression:
        frame["is_number"] = (np.isfinite(current.labels) & (current.is_labelled or may_be_unlabelled)).astype(np.int64)
    train, promoted = data.profiles.get("train"), data.promoted
    facts = RawFacts(
        columns=frozenset(frame.columns),
        split=split,
        labels=labels,
        is_labelled=current.is_labelled,
        may_be_unlabelled=may_be_unlabelled,
        lengths=length_limits(train.characters) if train else None,
        train=Reference(train.labels, train.characters) if train and split != "train" else None,
        promoted=Reference(labels_as(promoted, labels, split), promoted.splits[split].characters)
        if promoted and split in promoted.splits
        else None,
    )
    return _table("raw", split, frame, params, facts)


def _tokenized_table(data: DerivedData, split: str, vocabulary: Vocabulary) -> Table:
    phase(f"tokens of {split}")
    params, folders, current = data.params, data.folders, data.raw.get(split)
    path, raw_path = split_file(folders.tokenized, split), split_file(folders.raw, split)
    frame = tokenized_columns(path, vocabulary)
    if current is not None and len(current.frame) == len(frame):
        frame["raw_labels"] = current.labels
        frame["decoded"] = decoding_matches(raw_path, path, params, folders.tokenizer, vocabulary)
    raw_rows = pq.read_metadata(raw_path).num_rows
    facts = TokenizedFacts(frozenset(frame.columns), vocabulary, params.tokenize.max_length, raw_rows)
    return _table("tokenized", split, frame, params, facts)


def _between_tables(data: DerivedData) -> Iterator[Table]:
    train, promoted = data.raw.get("train"), data.promoted
    for split, current in data.raw.items():
        reference = promoted.splits.get(split) if promoted else None
        frame = between_frame(current, train.vocabulary if train and split != "train" else None, reference)
        table = _table("between", split, frame, data.params, Facts(frozenset(frame.columns)))
        if table.expectations:
            yield table


def between_frame(split: RawSplit, train: VocabularyCounts | None, promoted: SplitProfile | None) -> pd.DataFrame:
    """Return one row with a column per comparison of a split with train, and with the promoted model's data.

    ``vocabulary_overlap`` and ``promoted_vocabulary`` are fractions of the occurrences of all words. The latter is relative to the
    coverage that the promoted split itself reaches with its most common words.
    """
    columns: dict[str, float] = {"row": 0}
    if train is not None:
        columns["vocabulary_overlap"] = split.vocabulary.coverage(train.hashes)
    if promoted is not None:
        columns["promoted_rows"] = len(split.frame) / max(promoted.rows, 1)
        columns["promoted_vocabulary"] = split.vocabulary.coverage(promoted.words.word_keys) / max(promoted.words.known, 1e-9)
    return pd.DataFrame([columns])


def schema_frame(schemas: Mapping[str, tuple[pa.Schema, pa.Schema]]) -> pd.DataFrame:
    """Return one row per column of a split, with its expected and its actual type.

    Args:
        schemas: The expected and the actual schema, by kind of file.
    """
    rows = []
    for kind, pair in schemas.items():
        expected, actual = (described(schema) for schema in pair)
        names = sorted(expected.keys() | actual.keys())
        rows += [[f"{kind} {name}: {types.get(name, 'absent')}" for types in (expected, actual)] for name in names]
    # Column and label names are user input, and Great Expectations does not escape them in its pages.
    frame = pd.DataFrame([[html.escape(value) for value in row] for row in rows], columns=["expected", "found"], dtype=object)
    frame.insert(0, "row", range(len(frame)))
    return frame


def described(schema: pa.Schema) -> dict[str, str]:
    """Return the type of each column, and the names of the labels."""
    types = {field.name: f"list of {field.type.value_type}" if pa.types.is_list(field.type) else str(field.type) for field in schema}
    try:
        names = LabelSchema.of(schema).names
    except DataError:
        return types
    return {**types, "names of labels": "numbers" if names is None else ", ".join(names)}
