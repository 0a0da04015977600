"""Derives the tables that are checked from the splits: scalar columns, limits, and measurements of each split."""

import html
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from stages.validate.checks import Table
from stages.validate.classes import ClassFindings
from stages.validate.columns import Arrays, StoredColumns, column_writer, stored, write_columns
from stages.validate.labels import LabelFindings, examine_labels
from stages.validate.near_duplicates import NearDuplicateRows, copy_columns, copy_notes, find_near_duplicates
from stages.validate.raw import RawSplit, broken_character_notes, read_raw
from stages.validate.tokenized import Vocabulary, decoding_matches, read_tokenized
from tuneline.analysis.drift import (
    Distribution,
    Numbers,
    bin_counts,
    kolmogorov_smirnov,
    population_stability,
)
from tuneline.core.errors import DataError
from tuneline.core.paths import SPLITS, TOKENIZER
from tuneline.core.tables import LABELS, UNLABELLED, SplitReader, raw_schema, tokenized_schema
from tuneline.core.terminal import phase
from tuneline.engines import engine
from tuneline.params import Params
from tuneline.params.validate import DriftRule
from tuneline.reports.checks import Profile, SplitProfile, WordCounts, Words
from tuneline.tasks import TASKS, Task, read_task

LISTED = 10_000
"""Most common words of train whose counts are kept with their text."""
WORDS = 500
"""Most common words of a split that its profile has."""
FENCE = 3.0
"""Interquartile ranges beyond the quartiles from which a length is an outlier: Tukey's "far out", on logarithms of lengths."""
MIN_RANGE = np.log(1.5)
"""Lower bound of the interquartile range, so that a split of almost equal lengths does not have outliers everywhere."""


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


@dataclass(frozen=True)
class DerivedData:
    """Everything that is derived from the data.

    ``raw`` and ``profiles`` have the splits with the expected columns, by name.
    """

    params: Params
    folders: DataFolders
    labels: Task
    raw: Mapping[str, RawSplit]
    profiles: Mapping[str, SplitProfile]
    promoted: Profile | None
    classes: ClassFindings | None
    tables: list[Table]

    def written(self, kind: str, split: str, columns: Arrays) -> StoredColumns:
        """Write derived columns of a split."""
        return write_columns(self.folders.derived / kind / f"{split}.parquet", columns)


def derive_tables(params: Params, folders: DataFolders, promoted: Profile | None) -> DerivedData:
    """Read all splits and derive the tables to check.

    A split without the expected columns has the table ``columns`` only.
    """
    vocabulary = Vocabulary.read(folders.tokenizer, len(params.data.text_columns))
    places = {"raw": (folders.raw, "download"), "tokenized": (folders.tokenized, "tokenize")}
    splits = {
        kind: {split: SplitReader.open(folder, split, stage) for split in SPLITS}
        for kind, (folder, stage) in places.items()
    }
    labels = _train_labels(params, splits["raw"]["train"])
    expected = {
        "raw": raw_schema(params.data.text_columns, labels),
        "tokenized": tokenized_schema(vocabulary.has_type_ids, labels),
    }
    readable = {
        kind: {
            name: split
            for name, split in of_kind.items()
            if described(split.schema) == described(expected[kind])
        }
        for kind, of_kind in splits.items()
    }
    with engine(params.run):
        raw = read_raw(readable["raw"], params.data.text_columns, folders.derived / "raw", params.run)
        tokenized = read_tokenized(
            readable["tokenized"], vocabulary, folders.derived / "tokenized", params.run
        )
    profiles = {split: profile_split(split_data, labels) for split, split_data in raw.items()}
    data = DerivedData(
        params, folders, labels, raw, profiles, promoted, ClassFindings.of(raw, labels, params), []
    )
    for split in SPLITS:
        schemas = schema_columns({kind: (expected[kind], splits[kind][split].schema) for kind in expected})
        data.tables.append(Table("columns", split, data.written("schemas", split, schemas)))
    phase("near-duplicates")
    found = find_near_duplicates(
        [split_data.words() for split_data in raw.values()],
        [split_data.unordered_keys for split_data in raw.values()],
        params.validate_.near_duplicates.similarity,
    )
    data.tables.extend(
        _raw_table(data, split, near_duplicates) for split, near_duplicates in zip(raw, found, strict=True)
    )
    data.tables.extend(
        _tokenized_table(data, splits["raw"][name], splits["tokenized"][name], tokenized[name], vocabulary)
        for name in tokenized
    )
    phase("labels")
    findings = examine_labels(raw, params.data.text_columns, labels, params.validate_)
    for split in raw:
        label_findings = findings.get(split, LabelFindings())
        measured = {**measurements(data, split, tokenized.get(split)), **label_findings.columns}
        if measured:
            columns = data.written(
                "measured", split, {name: np.array([value]) for name, value in measured.items()}
            )
            data.tables.append(Table("between", split, columns, notes=label_findings.notes))
    return data


def _train_labels(params: Params, train: SplitReader) -> Task:
    """Return the label schema of train, which the other splits must equal; without labels if train has lost them."""
    try:
        return read_task(train.schema)
    except DataError:
        return TASKS[params.data.task].of_outputs(())


def schema_columns(schemas: Mapping[str, tuple[pa.Schema, pa.Schema]]) -> dict[str, NDArray[np.object_]]:
    """Return the columns ``expected`` and ``found``: the type of each column of a split, given both schemas by kind of file."""
    rows = []
    for kind, pair in schemas.items():
        expected, actual = (described(schema) for schema in pair)
        names = sorted(expected.keys() | actual.keys())
        rows += [
            [f"{kind} {name}: {types.get(name, 'absent')}" for types in (expected, actual)] for name in names
        ]
    # Column and label names are user input, and Great Expectations does not escape them in its pages.
    return {
        name: np.array([html.escape(row[place]) for row in rows], dtype=object)
        for place, name in enumerate(("expected", "found"))
    }


def described(schema: pa.Schema) -> dict[str, str]:
    """Return the type of each column, and the names of the labels."""
    types = {
        field.name: f"list of {field.type.value_type}" if pa.types.is_list(field.type) else str(field.type)
        for field in schema
    }
    try:
        names = read_task(schema).names_text
    except DataError:
        return types
    return {**types, "names of labels": names}


def _raw_table(data: DerivedData, split: str, near_duplicates: NearDuplicateRows) -> Table:
    params, current, labels = data.params, data.raw[split], data.labels
    copies = copy_columns(data.raw, split, near_duplicates, labels)
    columns = current.columns.with_columns(data.written("copies", split, copies))
    notes = {**copy_notes(data.raw, copies), **broken_character_notes(current, params.data.text_columns)}
    broken = np.count_nonzero(current.columns.column("broken_characters"))
    if (
        broken <= params.validate_.broken_encoding.max * current.rows
    ):  # else the whole source has another encoding
        columns = columns.with_columns(columns, mixed_characters="broken_characters")
    limits: dict[str, Any] = {}
    # A split that is neither trained on nor reported on may be unlabelled.
    if not current.is_labelled and split not in ("train", params.evaluate.split):
        limits["class_ids"] = [UNLABELLED]
    else:
        limits |= labels.label_limits
    if data.classes:
        notes |= data.classes.notes(split, current)
    if data.classes or "class_ids" not in limits:
        columns = columns.with_columns(_label_columns(data, split))
    if split == "train" and "class_ids" in limits:
        limits["every_class"] = limits["class_ids"]
    if "train" in data.profiles and (lengths := length_limits(data.profiles["train"].characters)):
        limits["shortest"], limits["longest"] = lengths
    return Table("raw", split, columns, limits, notes)


def _label_columns(data: DerivedData, split: str) -> StoredColumns:
    """Return the columns about the label of each row; the numbers of a split without labels are not numbers."""
    current, path = data.raw[split], data.folders.derived / "labels" / f"{split}.parquet"
    with column_writer(path) as write:
        for rows in current.columns.frames([LABELS, "is_header"]):
            is_number = {
                "is_number": (np.isfinite(rows[LABELS].to_numpy()) & current.is_labelled).astype(np.int64)
            }
            write(data.classes.columns(split, rows) if data.classes else is_number)
    return stored(path)


def _tokenized_table(
    data: DerivedData, raw: SplitReader, split: SplitReader, columns: StoredColumns, vocabulary: Vocabulary
) -> Table:
    params, current = data.params, data.raw.get(split.split)
    if current is not None and current.rows == columns.rows:
        decoded = decoding_matches(raw, split, params, data.folders.tokenizer, vocabulary)
        columns = columns.with_columns(data.written("decoded", split.split, {"decoded": decoded}))
        columns = columns.with_columns(current.columns, raw_labels=LABELS)
    return Table(
        "tokenized", split.split, columns, tokenized_limits(vocabulary, params.tokenize.max_length, raw.rows)
    )


def tokenized_limits(vocabulary: Vocabulary, max_length: int, raw_rows: int) -> dict[str, Any]:
    """Return the limits of a tokenized split; for a tokenizer without special tokens at the ends, none for these."""
    ends = {"first_ids": vocabulary.first_id, "last_ids": vocabulary.last_id}
    return {
        "largest_id": vocabulary.largest_id,
        "largest_type_id": vocabulary.largest_type_id,
        "template_tokens": len(vocabulary.template),
        "max_length": max_length,
        "untruncated_length": max_length - 1,
        "raw_rows": raw_rows,
        **{name: [token] for name, token in ends.items() if token is not None},
    }


def measurements(data: DerivedData, split: str, tokenized: StoredColumns | None) -> dict[str, float]:
    """Return the measurements of a split, by the key of their check: of itself, against train, and against the promoted model's data.

    ``vocabulary_overlap`` and ``promoted_vocabulary`` are fractions of the occurrences of all words. The
    latter is relative to the coverage that the promoted split itself reaches with its most common words.
    """
    current, rules = data.raw[split], data.params.validate_
    found, references = {}, []
    if current.is_labelled and current.rows:
        found["class_balance"] = float(pd.Series(current.labels).value_counts(normalize=True).max())
    if tokenized is not None:
        unknown, content = (tokenized.column(name).sum() for name in ("unknown_tokens", "content_tokens"))
        found["unknown_rate"] = float(unknown / content) if content else 0.0
    if split != "train" and "train" in data.raw:
        found["vocabulary_overlap"] = current.vocabulary.coverage(data.raw["train"].vocabulary.hashes)
        references.append(
            ("label_drift", "length_drift", data.profiles["train"].labels, data.profiles["train"].characters)
        )
    if data.promoted and (before := data.promoted.splits.get(split)):
        found["promoted_rows"] = current.rows / max(before.rows, 1)
        found["promoted_vocabulary"] = current.vocabulary.coverage(before.words.word_keys) / max(
            before.words.known, 1e-9
        )
        references.append(
            (
                "promoted_labels",
                "promoted_lengths",
                labels_as(data.promoted, data.labels, split),
                before.characters,
            )
        )
    for of_labels, of_lengths, labels, lengths in references:
        if labels is not None and current.is_labelled:
            found |= drift_columns(
                of_labels, getattr(rules, of_labels), current.labels, labels, ordered=data.labels.ordered
            )
        found |= drift_columns(
            of_lengths,
            getattr(rules, of_lengths),
            current.columns.column("characters"),
            lengths,
            ordered=True,
        )
    return found


def drift_columns(
    check: str, rule: DriftRule, values: Numbers, reference: Distribution, *, ordered: bool
) -> dict[str, float]:
    """Return the distances of values from a reference, and under ``significant_NAME`` the same, or 0 for one that is not significant.

    The key of the check is the name of the population stability index; ``ordered`` numbers have a
    Kolmogorov-Smirnov distance ``CHECK_ks``.
    """
    counts, expected = (
        bin_counts(values[~np.isnan(values)], np.array(reference.edges)),
        np.array(reference.counts),
    )
    distances = {check: population_stability(counts, expected)}
    if ordered:
        distances[f"{check}_ks"] = kolmogorov_smirnov(counts, expected)
    significant = {
        f"significant_{name}": distance.value if distance.p_value <= rule.significance else 0.0
        for name, distance in distances.items()
    }
    return {**{name: distance.value for name, distance in distances.items()}, **significant}


def profile_split(split: RawSplit, labels: Task) -> SplitProfile:
    """Profile one raw split: its labels per class, or binned at percentiles for a regression; its lengths and words."""
    words, found = split.vocabulary.most_common(WORDS), None
    if split.is_labelled and labels.ordered:
        found = Distribution.of_numbers(split.labels.astype(np.float64))
    elif split.is_labelled:
        found = Distribution.of_classes(split.labels.astype(np.int64), labels.outputs)
    return SplitProfile(
        rows=split.rows,
        labels=found,
        characters=Distribution.of_numbers(split.columns.column("characters")),
        words=Words(
            hashes=[f"{value:016x}" for value in words.tolist()], known=split.vocabulary.coverage(words)
        ),
    )


def count_train_words(train: RawSplit) -> WordCounts:
    """Count the words of train."""
    vocabulary = train.vocabulary
    return WordCounts(
        total=vocabulary.total, different=len(vocabulary.hashes), counts=vocabulary.counts_by_word(LISTED)
    )


def labels_as(profile: Profile, labels: Task, split: str) -> Distribution | None:
    """Return the label distribution of a split by the class ids of another task, with one more bin for classes that this lacks.

    It is ``None`` if the split had no labels, or labels of another kind.
    """
    former, before = profile.task, profile.splits[split].labels
    if before is None or former.kind != labels.kind:
        return None
    if labels.ordered:
        return before
    counts = dict(zip(former.output_names, before.counts, strict=False))
    current = [counts.pop(name, 0) for name in labels.output_names]
    removed = [sum(counts.values())] if counts else []
    return Distribution(
        tuple(float(edge) for edge in range(len(current) - 1 + len(removed))), (*current, *removed)
    )


def length_limits(characters: Distribution) -> tuple[float, float] | None:
    """Return the shortest and the longest length in characters that is not an outlier; ``None`` for a distribution of no rows."""
    if not characters.edges:
        return None
    lower, upper = (np.log1p(characters.quantile(level)) for level in (0.25, 0.75))
    reach = FENCE * max(upper - lower, MIN_RANGE)
    return float(max(np.expm1(lower - reach), 0.0)), float(np.expm1(upper + reach))
