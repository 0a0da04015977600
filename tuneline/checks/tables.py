"""Derives the tables that are checked from the splits: scalar columns, limits, and measurements."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.checks.analysis.clusters import Clusters, cluster_splits
from tuneline.checks.analysis.distributions import (
    Distance,
    Distribution,
    bin_counts,
    bin_values,
    histograms,
    largest_share,
    most_drifted,
    population_stabilities,
    population_stability,
)
from tuneline.checks.analysis.near_duplicates import NearDuplicateRows, find_near_duplicates
from tuneline.checks.classes import ClassFindings
from tuneline.checks.definitions import Columns, Table, percent
from tuneline.checks.labels import examine_labels
from tuneline.checks.own import load_checks, own_tables
from tuneline.checks.raw import RawSplit, copy_columns, read_raw
from tuneline.checks.results import Profile, SplitProfile, Words
from tuneline.checks.text_lengths import MOST_PIECES
from tuneline.checks.tokenized import (
    Vocabulary,
    read_tokenized,
    truncation_notes,
    whole_lengths,
)
from tuneline.core.params import Params, TokenizeParams
from tuneline.core.params.evaluate import ValidateParams
from tuneline.core.paths import GROUPS, SPLITS, TOKENIZER
from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.terminal import phase
from tuneline.core.stage.engines import engine
from tuneline.core.stage.tables import GROUP_COLUMN, LABELS, SplitReader, read_numbers
from tuneline.model.tasks import Task
from tuneline.model.tasks.columns import raw_schema, read_task, tokenized_schema

WORDS = 500
"""Most common words of a split that its profile has."""
FENCE = 3.0
"""Interquartile ranges beyond the quartiles from which a length is an outlier.

It is Tukey's "far out", on logarithms of lengths.
"""
MIN_RANGE = np.log(1.5)
"""Lower bound of the interquartile range: almost equal lengths would have outliers everywhere."""


@dataclass(frozen=True)
class DataFolders:
    """The folders of the raw and the tokenized splits, and of what is derived from them.

    The latter is removed in the end. ``groups`` has the groups of the rows of raw splits.
    """

    raw: Path
    tokenized: Path
    derived: Path
    groups: Path = GROUPS

    @property
    def tokenizer(self) -> Path:
        """Folder of the tokenizer."""
        return self.tokenized / TOKENIZER.name


@dataclass(frozen=True)
class DerivedData:
    """Everything that is derived from the data.

    ``raw``, ``profiles`` and ``clusters`` (of each row) are by split.
    """

    params: Params
    folders: DataFolders
    labels: Task
    raw: Mapping[str, RawSplit]
    profiles: Mapping[str, SplitProfile]
    promoted: Profile | None
    classes: ClassFindings | None
    tables: list[Table]
    clusters: dict[str, Clusters]


def derive_tables(params: Params, folders: DataFolders, promoted: Profile | None) -> DerivedData:
    """Read all splits and derive the tables to check.

    Raises:
        DataError: A file has not the columns, types and label names that the pipeline writes.
        ParamsError: A check of the user cannot be used.
    """
    # checks of the user, and files with their schemas
    own = load_checks(params.validate_)
    text_columns = params.data.text_columns
    vocabulary = Vocabulary.read(folders.tokenizer, len(text_columns))
    raw_files = {}
    tokenized_files = {}
    for split in SPLITS:
        raw_files[split] = SplitReader.open(folders.raw, split, "download")
        tokenized_files[split] = SplitReader.open(folders.tokenized, split, "tokenize")
    labels = read_task(raw_files["train"].schema)
    answer = None
    if params.tokenize.long_text == "windows":
        answer = params.tokenize.windows.answer
    check_schemas(raw_files, raw_schema(text_columns, labels))
    check_schemas(tokenized_files, tokenized_schema(vocabulary.has_type_ids, labels, answer))

    # their columns
    with engine(params.run):
        raw = read_raw(raw_files, text_columns, labels, folders.derived / "raw", params.run)
        tokenized = read_tokenized(
            tokenized_files, vocabulary, labels, folders.derived / "tokenized", params.run
        )
    profiles = {split: profile_split(current, labels) for split, current in raw.items()}
    classes = ClassFindings.of(raw, labels, params)
    data = DerivedData(params, folders, labels, raw, profiles, promoted, classes, [], {})
    data.tables.extend(own_tables(own, raw, text_columns))  # first: what the user wrote may fail

    # tables of rows
    phase("near-duplicates")
    words = []
    keys = []
    groups = []
    for split, current in raw.items():
        words.append(current.words())
        keys.append(current.columns["unordered_key"])
        path = folders.groups / f"{split}.parquet"
        groups.append(read_numbers(path, GROUP_COLUMN, current.rows, made_by="download"))
    near_duplicates = find_near_duplicates(words, keys, params.validate_.near_duplicate_similarity)
    origins = [similar_rows.origin for similar_rows in near_duplicates]
    data.clusters.update(zip(raw, cluster_splits(keys, origins, groups), strict=True))
    for split, similar_rows in zip(raw, near_duplicates, strict=True):
        data.tables.append(_raw_table(data, split, similar_rows))
    for split, columns in tokenized.items():
        data.tables.append(_tokenized_table(data, split, columns, vocabulary))

    # tables of measurements
    phase("labels")
    for split in raw:
        table = Table("between", split, {}, measured_limits(params.validate_))
        if split == "train":
            examine_labels(table, raw[split], text_columns, labels)
        measure(table, data, tokenized[split])
        data.tables.append(table)
    return data


def check_schemas(splits: Mapping[str, SplitReader], expected: pa.Schema) -> None:
    """Refuse splits without the columns, types and label names of a schema."""
    required = described(expected)
    for reader in splits.values():
        found = described(reader.schema)
        if found != required:
            different = dict(required.items() ^ found.items())
            name = min(different)
            raise DataError(
                f"{reader.name}: {name}: expected {required.get(name, 'none')}, found"
                f" {found.get(name, 'none')}.",
                "Another version of the pipeline wrote it: run `dvc repro -f download`.",
            )


def described(schema: pa.Schema) -> dict[str, str]:
    """Return the type of each column, and the names of the labels."""
    types = {}
    for field in schema:
        if pa.types.is_list(field.type):  # without the name of its items, which differs between versions
            types[field.name] = f"list of {field.type.value_type}"
        else:
            types[field.name] = str(field.type)
    try:
        task = read_task(schema)
    except DataError:  # the file has no names
        return types
    return {**types, "names of labels": ", ".join(task.class_names) or "numbers"}


def _raw_table(data: DerivedData, split: str, near_duplicates: NearDuplicateRows) -> Table:
    """Return the table of the rows of a raw split."""
    params = data.params
    current = data.raw[split]
    columns = current.columns | copy_columns(data.raw, split, near_duplicates)
    notes = {}
    if data.classes:
        notes = data.classes.notes(split)
        columns |= data.classes.columns(split, current)
    # a split that is neither trained on nor reported on may be unlabelled
    if not current.is_labelled and split not in ("train", params.evaluate.split):
        del columns["valid_label"]

    limits: dict[str, Any] = {}
    lengths = length_limits(data.profiles["train"].characters)
    if lengths is not None:
        limits["shortest"], limits["longest"] = lengths
    return Table("raw", split, columns, limits, notes)


def _tokenized_table(data: DerivedData, split: str, columns: Columns, vocabulary: Vocabulary) -> Table:
    """Return the table of the rows of a tokenized split."""
    params = data.params
    current = data.raw[split]
    notes: dict[str, list[str]] = {}
    # rows are compared with the raw ones only where both have the same numbers
    if current.rows == len(columns["tokens"]):
        columns = columns | {"raw_labels": current.columns[LABELS]}
    if columns["tokens"].max(initial=0) >= params.tokenize.max_length:
        phase(f"lengths of {split}")
        lengths = whole_lengths(current, params.data.text_columns, data.folders.tokenizer)
        notes = {"truncation_rate": truncation_notes(lengths, params.tokenize)}
    return Table("tokenized", split, columns, tokenized_limits(vocabulary, params.tokenize), notes)


def tokenized_limits(vocabulary: Vocabulary, params: TokenizeParams) -> dict[str, Any]:
    """Return the limits of a tokenized split.

    A tokenizer without special tokens at the ends has no limits for them.
    """
    max_length = params.max_length  # of a row
    if params.long_text == "windows":
        max_length *= params.windows.max_windows
    limits: dict[str, Any] = {
        "largest_id": vocabulary.largest_id,
        "largest_type_id": vocabulary.largest_type_id,
        "template_tokens": len(vocabulary.template),
        "max_length": max_length,
        "window_length": params.max_length,
        "untruncated_length": max_length - 1,
    }
    if vocabulary.first_id is not None:
        limits["first_ids"] = [vocabulary.first_id]
    if vocabulary.last_id is not None:
        limits["last_ids"] = [vocabulary.last_id]
    return limits


def measured_limits(params: ValidateParams) -> dict[str, float]:
    """Return the limits of measurements, by the name under which checks refer to them."""
    return {
        "min_rows": params.min_rows,
        "class_balance": params.class_balance,
        "revealing_words": params.revealing_words,
        "unknown_rate": params.unknown_rate,
        "most_pieces": MOST_PIECES,
        "max_psi": params.drift.max_psi,
        "min_vocabulary": params.drift.min_vocabulary,
        "min_promoted_rows": params.drift.min_rows,
    }


def measure(table: Table, data: DerivedData, tokenized: Columns) -> None:
    """Add the measurements of a split to its table: of itself, against train, against the promoted data.

    ``vocabulary_overlap`` and ``promoted_vocabulary`` are fractions of the occurrences of all words. The
    latter is relative to the coverage that the promoted split itself reaches with its most common words.
    """
    split = table.split
    current = data.raw[split]

    # the split itself
    table.add("rows", current.rows)
    if current.is_labelled and current.rows:
        table.add("class_balance", largest_share(data.labels, current.labels))
    if data.classes and split == "train":
        table.add("absent_classes", int(np.count_nonzero(data.classes.counts["train"] == 0)))
    tokenized_rows = len(tokenized["tokens"])
    lost_rows = abs(tokenized_rows - current.rows)
    table.add("lost_rows", lost_rows, f"{tokenized_rows:,} rows, and {current.rows:,} raw ones")
    content = tokenized["content_tokens"].sum()
    unknown_rate = float(tokenized["unknown_tokens"].sum() / max(content, 1))
    table.add("unknown_rate", unknown_rate, percent(unknown_rate))
    if split == "train" and current.rows:
        phase("words of train")
        pieces = whole_lengths(current, data.params.data.text_columns, data.folders.tokenizer).word_pieces
        table.add("word_pieces", pieces, f"{pieces:.1f} pieces per word")

    # compared with train
    lengths = current.columns["characters"]
    if split != "train":
        train = data.profiles["train"]
        overlap = current.vocabulary.coverage(data.raw["train"].vocabulary.hashes)
        table.add("vocabulary_overlap", overlap)
        if current.is_labelled and train.labels is not None:
            distances = label_distances(data, split, train.labels, train.rows)
            _add_drift(table, data, "label_drift", distances)
        _add_drift(table, data, "length_drift", [distance_of(lengths, train.characters)])

    # compared with the promoted data
    if data.promoted is not None and split in data.promoted.splits:
        promoted = data.promoted.splits[split]
        table.add("promoted_rows", current.rows / max(promoted.rows, 1))
        coverage = current.vocabulary.coverage(promoted.words.word_keys)
        table.add("promoted_vocabulary", coverage / max(promoted.words.known, 1e-9))
        labels = labels_as(data.promoted, data.labels, split)
        if current.is_labelled and labels is not None:
            distances = label_distances(data, split, labels, promoted.rows)
            _add_drift(table, data, "promoted_labels", distances)
        _add_drift(table, data, "promoted_lengths", [distance_of(lengths, promoted.characters)])


def _add_drift(table: Table, data: DerivedData, check: str, distances: list[Distance]) -> None:
    """Add the largest of distances, which is 0 if it is not significant, to a table; of labels, which."""
    significance = data.params.validate_.drift.significance
    position = most_drifted(distances, significance)
    value, p_value = distances[position]
    words = f"population stability index {value:.4g}"
    if len(distances) > 1:
        names = [f"label {name!r}" for name in data.labels.class_names]
        names.append("labels that this data lacks")  # the bin that `labels_as` adds
        words = f"{names[position]}, {words}"
    if p_value > significance:
        value = 0.0
        words += ", not significant"
    table.add(check, value, words)


def distance_of(values: NDArray[Any], reference: Distribution) -> Distance:
    """Return the distance of numbers from a reference."""
    counts = bin_counts(values[~np.isnan(values)], np.array(reference.edges))
    return population_stability(counts, np.array(reference.counts))


def label_distances(data: DerivedData, split: str, reference: Distribution, rows: int) -> list[Distance]:
    """Return the distances of the labels of a split from a reference of ``rows`` rows.

    There is one for each label where a row can have several.
    """
    if not data.labels.has_classes:
        return [distance_of(data.raw[split].labels, reference)]
    # a reference of other classes has one bin more
    counts = np.zeros(len(reference.counts), np.int64)
    profile = data.profiles[split]
    if profile.labels is not None:
        counts[: len(profile.labels.counts)] = profile.labels.counts
    return population_stabilities(
        histograms(data.labels, counts, profile.rows),
        histograms(data.labels, np.array(reference.counts), rows),
    )


def profile_split(split: RawSplit, labels: Task) -> SplitProfile:
    """Profile one raw split: its labels, lengths and words.

    Labels are counted by class, or binned at percentiles for a regression.
    """
    distribution = None
    if split.is_labelled and not labels.has_classes:
        distribution = Distribution.of_numbers(split.labels.astype(np.float64))
    elif split.is_labelled:
        distribution = Distribution.of_classes(bin_values(labels, split.labels), labels.outputs)
    words = split.vocabulary.most_common(WORDS)
    hashes = [f"{value:016x}" for value in words.tolist()]
    return SplitProfile(
        rows=split.rows,
        labels=distribution,
        characters=Distribution.of_numbers(split.columns["characters"]),
        words=Words(hashes=hashes, known=split.vocabulary.coverage(words)),
    )


def labels_as(profile: Profile, labels: Task, split: str) -> Distribution | None:
    """Return the label distribution of a split by the class ids of another task.

    Classes that the task lacks have one more bin. The result is ``None`` if the split had no labels, or
    labels of another kind.
    """
    profiled = profile.splits[split].labels
    if profiled is None or profile.task.kind != labels.kind:
        return None
    if not labels.has_classes:
        return profiled
    removed = dict(zip(profile.task.output_names, profiled.counts, strict=False))
    counts = [removed.pop(name, 0) for name in labels.output_names]
    if removed:
        counts.append(sum(removed.values()))
    edges = map(float, range(len(counts) - 1))
    return Distribution(tuple(edges), tuple(counts))


def length_limits(characters: Distribution) -> tuple[float, float] | None:
    """Return the shortest and the longest length in characters that is not an outlier.

    The result is ``None`` for a distribution of no rows.
    """
    if not characters.edges:
        return None
    lower = np.log1p(characters.quantile(0.25))
    upper = np.log1p(characters.quantile(0.75))
    reach = FENCE * max(upper - lower, MIN_RANGE)
    shortest = max(np.expm1(lower - reach), 0.0)
    longest = np.expm1(upper + reach)
    return float(shortest), float(longest)
