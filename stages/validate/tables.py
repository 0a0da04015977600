"""Derives the tables that are checked from the splits: scalar columns, limits, and measurements."""

import html
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stages.validate.checks import Table, percent, tolerated_rows
from stages.validate.classes import ClassFindings, quoted_name, shortened
from stages.validate.columns import Arrays, StoredColumns, column_writer, stored, write_columns
from stages.validate.copies import copy_columns, copy_notes
from stages.validate.label_limits import label_limits, names_text
from stages.validate.label_sets import examine_sets
from stages.validate.labels import LabelFindings, examine_labels
from stages.validate.raw import RawSplit, broken_character_notes, read_raw
from stages.validate.tokenized import Vocabulary, decoding_matches, read_tokenized
from stages.validate.truncation import TruncationNotes, model_limit, whole_lengths
from tuneline.analysis.clusters import Clusters, cluster_splits
from tuneline.analysis.drift import (
    Distance,
    Distribution,
    Numbers,
    bin_counts,
    kolmogorov_smirnov,
    most_drifted,
    population_stabilities,
    population_stability,
)
from tuneline.analysis.label_bins import bin_values, histograms, label_figures, largest_share
from tuneline.analysis.near_duplicates import NearDuplicateRows, find_near_duplicates
from tuneline.core.tables import GROUP_COLUMN, LABELS, SplitReader, read_numbers
from tuneline.engines import engine
from tuneline.params import Params, TokenizeParams
from tuneline.params.validate import DriftRule
from tuneline.paths import GROUPS, SPLITS, TOKENIZER
from tuneline.reports.checks import Profile, SplitProfile, Words
from tuneline.runtime.errors import DataError
from tuneline.runtime.terminal import phase
from tuneline.tasks import TASKS, Task
from tuneline.tasks.schemas import raw_schema, read_task, tokenized_schema
from tuneline.tasks.task import UNLABELLED

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
    """The folders of the base model, of the raw and the tokenized splits, and of what is derived from them.

    The latter is removed in the end. ``groups`` has the groups of the rows of raw splits.
    """

    base: Path
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

    ``raw``, ``profiles`` and ``clusters`` (of each row) have the splits with the expected columns, by name.
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

    def written(self, kind: str, split: str, columns: Arrays) -> StoredColumns:
        """Write derived columns of a split."""
        return write_columns(self.folders.derived / kind / f"{split}.parquet", columns)


def derive_tables(params: Params, folders: DataFolders, promoted: Profile | None) -> DerivedData:
    """Read all splits and derive the tables to check.

    A split without the expected columns has the table ``columns`` only.
    """
    # files and their schemas
    text_columns = params.data.text_columns
    vocabulary = Vocabulary.read(folders.tokenizer, len(text_columns))
    raw_files = {}
    tokenized_files = {}
    for split in SPLITS:
        raw_files[split] = SplitReader.open(folders.raw, split, "download")
        tokenized_files[split] = SplitReader.open(folders.tokenized, split, "tokenize")
    labels = _train_labels(params, raw_files["train"])
    raw_expected = raw_schema(text_columns, labels)
    answer = None
    if params.tokenize.long_text == "windows":
        answer = params.tokenize.windows.answer
    tokenized_expected = tokenized_schema(vocabulary.has_type_ids, labels, answer)

    # columns of the splits that can be read
    with engine(params.run):
        raw = read_raw(
            _with_schema(raw_files, raw_expected), text_columns, labels, folders.derived / "raw", params.run
        )
        tokenized = read_tokenized(
            _with_schema(tokenized_files, tokenized_expected),
            vocabulary,
            labels,
            folders.derived / "tokenized",
            params.run,
        )
    profiles = {split: profile_split(current, labels) for split, current in raw.items()}
    classes = ClassFindings.of(raw, labels, params)
    data = DerivedData(params, folders, labels, raw, profiles, promoted, classes, [], {})

    # tables of columns
    for split in SPLITS:
        schemas = {
            "raw": (raw_expected, raw_files[split].schema),
            "tokenized": (tokenized_expected, tokenized_files[split].schema),
        }
        columns = data.written("schemas", split, schema_columns(schemas))
        data.tables.append(Table("columns", split, columns))

    # tables of rows
    phase("near-duplicates")
    words = []
    keys = []
    for current in raw.values():
        words.append(current.words())
        keys.append(current.unordered_keys)
    near_duplicates = find_near_duplicates(words, keys, params.validate_.near_duplicates.similarity)
    origins = [similar_rows.origin for similar_rows in near_duplicates]
    groups = [read_groups(folders.groups, current) for current in raw.values()]
    data.clusters.update(zip(raw, cluster_splits(keys, origins, groups), strict=True))
    for split, similar_rows in zip(raw, near_duplicates, strict=True):
        data.tables.append(_raw_table(data, split, similar_rows))
    for split, columns in tokenized.items():
        data.tables.append(
            _tokenized_table(data, raw_files[split], tokenized_files[split], columns, vocabulary)
        )

    # tables of measurements
    phase("labels")
    findings = examine_labels(raw, text_columns, labels, params.validate_)
    findings_of_sets = examine_sets(raw, classes, params.validate_)
    for split in raw:
        label_findings = findings.get(split, LabelFindings())
        set_findings = findings_of_sets.get(split, LabelFindings())
        measured = measurements(data, split, tokenized.get(split))
        measured |= label_findings.columns | set_findings.columns
        if measured:
            row = {name: np.array([value]) for name, value in measured.items()}
            columns = data.written("measured", split, row)
            notes = label_findings.notes | set_findings.notes | drift_notes(data, split)
            data.tables.append(Table("between", split, columns, notes=notes))
    return data


def read_groups(folder: Path, split: RawSplit) -> NDArray[np.int32] | None:
    """Return the group of each row of a split; ``None`` if it has none."""
    path = folder / f"{split.source.split}.parquet"
    return read_numbers(path, GROUP_COLUMN, split.rows, made_by="download")


def _with_schema(splits: Mapping[str, SplitReader], expected: pa.Schema) -> dict[str, SplitReader]:
    """Return the splits with the columns, types and label names of a schema."""
    required = described(expected)
    return {name: split for name, split in splits.items() if described(split.schema) == required}


def _train_labels(params: Params, train: SplitReader) -> Task:
    """Return the label schema of train, which all splits must have; without labels if train lost them."""
    try:
        return read_task(train.schema)
    except DataError:
        return TASKS[params.data.task].of_outputs(())


def schema_columns(schemas: Mapping[str, tuple[pa.Schema, pa.Schema]]) -> dict[str, NDArray[np.object_]]:
    """Return the columns ``expected`` and ``found``: the type of each column of a split.

    ``schemas`` has both schemas by kind of file.
    """
    expected_lines = []
    actual_lines = []
    for kind, (expected_schema, actual_schema) in schemas.items():
        expected = described(expected_schema)
        actual = described(actual_schema)
        for name in sorted(expected.keys() | actual.keys()):
            expected_lines.append(f"{kind} {name}: {expected.get(name, 'absent')}")
            actual_lines.append(f"{kind} {name}: {actual.get(name, 'absent')}")

    # column and label names are user input, and Great Expectations does not escape them in its pages
    return {
        "expected": np.array(list(map(html.escape, expected_lines)), dtype=object),
        "found": np.array(list(map(html.escape, actual_lines)), dtype=object),
    }


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
    return {**types, "names of labels": names_text(task)}


def _raw_table(data: DerivedData, split: str, near_duplicates: NearDuplicateRows) -> Table:
    """Return the table of the rows of a raw split."""
    params = data.params
    current = data.raw[split]

    # copies
    copies = copy_columns(data.raw, split, near_duplicates, data.labels)
    columns = current.columns.with_columns(data.written("copies", split, copies))
    notes = copy_notes(data.raw, copies)

    # encodings: where few rows have broken characters, each of them is wrong; else it is the whole source
    notes |= broken_character_notes(current, params.data.text_columns)
    broken = np.count_nonzero(current.columns.column("broken_characters"))
    if broken <= tolerated_rows(params.validate_.broken_encoding.max, current.rows):
        columns = columns.with_columns(columns, mixed_characters="broken_characters")

    # labels: a split that is neither trained on nor reported on may be unlabelled
    limits: dict[str, Any] = {}
    if not current.is_labelled and split not in ("train", params.evaluate.split):
        limits["class_ids"] = [UNLABELLED]
    else:
        limits |= label_limits(data.labels)
    if data.classes:
        notes |= data.classes.notes(split, current)
    if data.classes or not limits:
        columns = columns.with_columns(_label_columns(data, split))
    if split == "train" and "class_ids" in limits:
        limits["every_class"] = limits["class_ids"]

    # lengths
    if "train" in data.profiles:
        lengths = length_limits(data.profiles["train"].characters)
        if lengths is not None:
            limits["shortest"], limits["longest"] = lengths
    return Table("raw", split, columns, limits, notes)


def _label_columns(data: DerivedData, split: str) -> StoredColumns:
    """Return the columns about the label of each row; in a split without labels, no row has a number."""
    current = data.raw[split]
    path = data.folders.derived / "labels" / f"{split}.parquet"
    is_header = current.columns.column("is_header")
    first = 0
    with column_writer(path) as write:
        for labels in current.label_batches():
            end = first + len(labels)
            if data.classes:
                write(data.classes.columns(split, labels, is_header[first:end]))
            else:
                is_number = data.labels.valid(labels) & current.is_labelled
                write({"is_number": is_number.astype(np.int64)})
            first = end
    return stored(path)


def _tokenized_table(
    data: DerivedData, raw: SplitReader, split: SplitReader, columns: StoredColumns, vocabulary: Vocabulary
) -> Table:
    """Return the table of the rows of a tokenized split."""
    # rows are compared with the raw ones only where both have the same numbers
    current = data.raw.get(split.split)
    if current is not None and current.rows == columns.rows:
        decoded = decoding_matches(raw, split, data.params, data.folders.tokenizer, vocabulary)
        columns = columns.with_columns(data.written("decoded", split.split, {"decoded": decoded}))
        columns = columns.with_columns(current.columns, raw_labels=LABELS)
    limits = tokenized_limits(vocabulary, data.params.tokenize, raw.rows)
    return Table("tokenized", split.split, columns, limits, _truncation_notes(data, raw, columns))


def _truncation_notes(data: DerivedData, raw: SplitReader, tokenized: StoredColumns) -> dict[str, list[str]]:
    """Return the notes of the check ``truncation_rate``, where a row may be longer than a model input."""
    params = data.params
    current = data.raw.get(raw.split)
    if current is None or not tokenized.rows:
        return {}
    if tokenized.column("tokens").max() < params.tokenize.max_length:
        return {}
    phase(f"lengths of {raw.split}")
    characters = float(current.columns.column("characters").mean())
    lengths = whole_lengths(raw, characters, params.data.text_columns, data.folders.tokenizer)
    limit = model_limit(data.folders.base)
    notes = TruncationNotes(lengths, raw.rows, params, limit)
    lines = notes.losses()
    if raw.split == "train":  # once is enough, and it is trained on
        lines += notes.options()
    return {"truncation_rate": lines} if lines else {}


def tokenized_limits(vocabulary: Vocabulary, params: TokenizeParams, raw_rows: int) -> dict[str, Any]:
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
        "raw_rows": raw_rows,
    }
    if vocabulary.first_id is not None:
        limits["first_ids"] = [vocabulary.first_id]
    if vocabulary.last_id is not None:
        limits["last_ids"] = [vocabulary.last_id]
    return limits


def measurements(data: DerivedData, split: str, tokenized: StoredColumns | None) -> dict[str, float]:
    """Return the measurements of a split, by the key of their check.

    They are of the split itself, against train, and against the promoted model's data.
    ``vocabulary_overlap`` and ``promoted_vocabulary`` are fractions of the occurrences of all words. The
    latter is relative to the coverage that the promoted split itself reaches with its most common words.
    """
    current = data.raw[split]
    measured: dict[str, float] = {}

    # the split itself
    if current.is_labelled and current.rows:
        measured["class_balance"] = largest_share(data.labels, current.labels)
    if tokenized is not None:
        unknown = tokenized.column("unknown_tokens").sum()
        content = tokenized.column("content_tokens").sum()
        measured["unknown_rate"] = float(unknown / content) if content else 0.0

    # rows and words, compared with train and with the promoted data
    train = None
    if split != "train" and "train" in data.raw:
        train = data.profiles["train"]
        measured["vocabulary_overlap"] = current.vocabulary.coverage(data.raw["train"].vocabulary.hashes)
    promoted = None
    if data.promoted is not None:
        promoted = data.promoted.splits.get(split)
    if promoted is not None:
        measured["promoted_rows"] = current.rows / max(promoted.rows, 1)
        coverage = current.vocabulary.coverage(promoted.words.word_keys)
        measured["promoted_vocabulary"] = coverage / max(promoted.words.known, 1e-9)

    # drift of labels and lengths
    for check, reference in label_references(data, split).items():
        measured |= label_drift(data, split, check, reference)
    if train is not None:
        measured |= length_drift(data, split, "length_drift", train.characters)
    if promoted is not None:
        measured |= length_drift(data, split, "promoted_lengths", promoted.characters)
    return measured


@dataclass(frozen=True)
class LabelReference:
    """The labels that the labels of a split are compared with, and the number of their rows."""

    labels: Distribution
    rows: int


def label_references(data: DerivedData, split: str) -> dict[str, LabelReference]:
    """Return what the labels of a split are compared with, by check; empty for a split without labels."""
    references: dict[str, LabelReference] = {}
    if not data.raw[split].is_labelled:
        return references
    if split != "train" and "train" in data.raw:
        train = data.profiles["train"]
        if train.labels is not None:
            references["label_drift"] = LabelReference(train.labels, train.rows)
    if data.promoted is not None and split in data.promoted.splits:
        labels = labels_as(data.promoted, data.labels, split)
        if labels is not None:
            references["promoted_labels"] = LabelReference(labels, data.promoted.splits[split].rows)
    return references


def label_drift(data: DerivedData, split: str, check: str, reference: LabelReference) -> dict[str, float]:
    """Return the distances of the labels of a split from a reference.

    Where a row has several labels, they are the distances of the label that has drifted most.
    """
    rule: DriftRule = getattr(data.params.validate_, check)
    if not data.labels.has_classes:
        return drift_columns(check, rule, data.raw[split].labels, reference.labels, ordered=True)
    distances = label_distances(data, split, reference)
    return significant_columns({check: distances[most_drifted(distances, rule.significance)]}, rule)


def label_distances(data: DerivedData, split: str, reference: LabelReference) -> list[Distance]:
    """Return the distance of each histogram of the labels of a split from its reference."""
    # a reference of other classes has one bin more
    counts = np.zeros(len(reference.labels.counts), np.int64)
    profile = data.profiles[split]
    if profile.labels is not None:
        counts[: len(profile.labels.counts)] = profile.labels.counts
    return population_stabilities(
        histograms(data.labels, counts, profile.rows),
        histograms(data.labels, np.array(reference.labels.counts), reference.rows),
    )


def drift_notes(data: DerivedData, split: str) -> dict[str, list[str]]:
    """Return which labels have drifted, by check, where each label is compared by itself."""
    notes = {}
    profile = data.profiles[split]
    for check, reference in label_references(data, split).items():
        rule: DriftRule = getattr(data.params.validate_, check)
        if not data.labels.has_classes or profile.labels is None:
            continue
        distances = label_distances(data, split, reference)
        if len(distances) == 1:
            continue
        lines = []
        for position, name in enumerate(data.labels.class_names):
            value, p_value = distances[position]
            if value > rule.max_psi and p_value <= rule.significance:
                share = percent(profile.labels.counts[position] / profile.rows)
                before = percent(reference.labels.counts[position] / max(reference.rows, 1))
                lines.append(f"label {quoted_name(name)}: {share} of the rows, {before} in the reference")
        if lines:
            notes[check] = shortened(lines)
    return notes


def length_drift(data: DerivedData, split: str, check: str, reference: Distribution) -> dict[str, float]:
    """Return the distances of the lengths of a split, in characters, from a reference."""
    rule: DriftRule = getattr(data.params.validate_, check)
    lengths = data.raw[split].columns.column("characters")
    return drift_columns(check, rule, lengths, reference, ordered=True)


def drift_columns(
    check: str, rule: DriftRule, values: Numbers, reference: Distribution, *, ordered: bool
) -> dict[str, float]:
    """Return the distances of values from a reference, by name, and what of them is significant.

    The key of the check is the name of the population stability index; ``ordered`` numbers have a
    Kolmogorov-Smirnov distance ``CHECK_ks``. ``significant_NAME`` is the distance, or 0 if it is not
    significant.
    """
    counts = bin_counts(values[~np.isnan(values)], np.array(reference.edges))
    expected = np.array(reference.counts)
    distances = {check: population_stability(counts, expected)}
    if ordered:
        distances[f"{check}_ks"] = kolmogorov_smirnov(counts, expected)
    return significant_columns(distances, rule)


def significant_columns(distances: Mapping[str, Distance], rule: DriftRule) -> dict[str, float]:
    """Return distances by name, and as ``significant_NAME`` the distance, or 0 if it is not significant."""
    values_by_name = {}
    significant = {}
    for name, distance in distances.items():
        values_by_name[name] = distance.value
        is_significant = distance.p_value <= rule.significance
        significant[f"significant_{name}"] = distance.value if is_significant else 0.0
    return values_by_name | significant


def profile_split(split: RawSplit, labels: Task) -> SplitProfile:
    """Profile one raw split: its labels, lengths and words.

    Labels are counted by class, or binned at percentiles for a regression.
    """
    distribution = None
    figures = None
    if split.is_labelled:
        figures = label_figures(labels, split.labels) or None
    if split.is_labelled and not labels.has_classes:
        distribution = Distribution.of_numbers(split.labels.astype(np.float64))
    elif split.is_labelled:
        distribution = Distribution.of_classes(bin_values(labels, split.labels), labels.outputs)
    words = split.vocabulary.most_common(WORDS)
    hashes = [f"{value:016x}" for value in words.tolist()]
    return SplitProfile(
        rows=split.rows,
        labels=distribution,
        label_figures=figures,
        characters=Distribution.of_numbers(split.columns.column("characters")),
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
