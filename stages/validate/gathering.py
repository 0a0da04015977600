"""Gathers the evidence: reads every file in batches, derives scalar columns, and lays out what is expected of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stages.validate.decoding import decoded
from stages.validate.profile import Profile, SplitProfile
from stages.validate.raw import RawSplit, read_raw
from stages.validate.relations import relations
from stages.validate.suites.between import between_suite, between_table
from stages.validate.suites.columns import columns_suite, columns_table, same
from stages.validate.suites.raw import RawFacts, Reference, length_limits, raw_suite
from stages.validate.suites.table import Table
from stages.validate.suites.tokenized import DECODED, RAW_LABELS, tokenized_suite
from stages.validate.tokenized import tokenized_features
from stages.validate.vocabulary import Vocabulary
from tuneline.errors import DataError
from tuneline.files.schemas import LabelSchema, raw_schema, read_labels, tokenized_schema
from tuneline.params import Params
from tuneline.paths import SPLITS, TOKENIZER, split_file


@dataclass(frozen=True)
class Places:
    """Where the data lies: the folders of the raw and of the tokenized splits."""

    raw: Path
    tokenized: Path

    @property
    def tokenizer(self) -> Path:
        """The tokenizer's folder."""
        return self.tokenized / TOKENIZER.name

    def schemas(self, split: str) -> dict[str, pa.Schema]:
        """The schemas of a split's two files, by kind."""
        return {kind: pq.read_schema(split_file(folder, split)) for kind, folder in (("raw", self.raw), ("tokenized", self.tokenized))}


@dataclass(frozen=True)
class Evidence:
    """All that was derived from the data.

    Attributes:
        params: All parameters.
        places: Where the data lies.
        labels: What labels mean.
        raw: What is known of the raw splits whose columns are sound.
        profiles: What these look like.
        promoted: What the promoted model's data looked like, when there is a profile of it.
        tables: What Great Expectations judges.
    """

    params: Params
    places: Places
    labels: LabelSchema
    raw: Mapping[str, RawSplit]
    profiles: Mapping[str, SplitProfile]
    promoted: Profile | None
    tables: list[Table]


def gather(params: Params, places: Places, promoted: Profile | None) -> Evidence:
    """Derives everything.

    Args:
        params: All parameters.
        places: Where the data lies.
        promoted: Profile of the promoted model's data, when there is one.
    """
    vocabulary = Vocabulary.read(places.tokenizer, len(params.data.text_columns))
    labels = _labels(params, split_file(places.raw, "train"))
    expected = {"raw": raw_schema(params.data.text_columns, labels), "tokenized": tokenized_schema(vocabulary.has_type_ids, labels)}
    found = {split: places.schemas(split) for split in SPLITS}
    sound = {kind: [split for split in SPLITS if same(expected[kind], found[split][kind])] for kind in expected}
    raw = {split: read_raw(split_file(places.raw, split), params.data.text_columns) for split in sound["raw"]}
    profiles = {split: SplitProfile.of(known, labels) for split, known in raw.items()}
    evidence = Evidence(params, places, labels, raw, profiles, promoted, [])
    for split in SPLITS:
        columns = columns_table({kind: (expected[kind], found[split][kind]) for kind in expected})
        evidence.tables.append(Table("columns", split, columns, columns_suite(params.validate_)))
    evidence.tables.extend(_raw(evidence, split) for split in raw)
    evidence.tables.extend(_tokenized(evidence, split, vocabulary) for split in sound["tokenized"])
    evidence.tables.extend(_between(evidence))
    return evidence


def _labels(params: Params, train: Path) -> LabelSchema:
    """The labels of train, which those of the other splits must equal; none where train has lost them."""
    try:
        return read_labels(train)
    except DataError:
        return LabelSchema(None if params.data.task == "regression" else ())


def _raw(evidence: Evidence, split: str) -> Table:
    params, here, labels = evidence.params, evidence.raw[split], evidence.labels
    may_be_unlabelled = split not in ("train", params.evaluate.split)
    found = relations(
        evidence.raw,
        split,
        params=params.validate_,
        folder=evidence.places.raw,
        text_columns=params.data.text_columns,
        labels=labels,
    )
    frame = here.frame.assign(**found)
    if labels.is_regression:
        frame["is_number"] = (np.isfinite(here.labels) & (here.is_labelled or may_be_unlabelled)).astype(np.int64)
    train, promoted = evidence.profiles.get("train"), evidence.promoted
    facts = RawFacts(
        split=split,
        labels=labels,
        is_labelled=here.is_labelled,
        may_be_unlabelled=may_be_unlabelled,
        lengths=length_limits(train.characters) if train else None,
        columns=frozenset(frame.columns),
        train=Reference(train.labels, train.characters) if train and split != "train" else None,
        promoted=Reference(promoted.labels_as(labels, split), promoted.splits[split].characters)
        if promoted and split in promoted.splits
        else None,
    )
    return Table("raw", split, frame, raw_suite(params.validate_, facts))


def _tokenized(evidence: Evidence, split: str, vocabulary: Vocabulary) -> Table:
    params, places, here = evidence.params, evidence.places, evidence.raw.get(split)
    path, raw_path = split_file(places.tokenized, split), split_file(places.raw, split)
    frame = tokenized_features(path, vocabulary)
    if here is not None and len(here.frame) == len(frame):
        frame[RAW_LABELS] = here.labels
        frame[DECODED] = decoded(raw_path, path, params, places.tokenizer, vocabulary)
    raw_rows = pq.read_metadata(raw_path).num_rows
    suite = tokenized_suite(params.validate_, vocabulary, params.tokenize.max_length, raw_rows, frozenset(frame.columns))
    return Table("tokenized", split, frame, suite)


def _between(evidence: Evidence) -> Iterator[Table]:
    train, promoted = evidence.raw.get("train"), evidence.promoted
    for split, here in evidence.raw.items():
        before = promoted.splits.get(split) if promoted else None
        frame = between_table(here, train.lexicon if train and split != "train" else None, before)
        if suite := between_suite(evidence.params.validate_, frame):
            yield Table("between", split, frame, suite)
