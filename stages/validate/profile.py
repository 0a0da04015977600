"""A profile of the data that is small enough for git: rows, labels, lengths, and hashes of the most common words."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from stages.validate.raw import RawSplit
from tuneline.drift import Distribution
from tuneline.errors import DataError
from tuneline.files.schemas import LabelSchema
from tuneline.text import Keys

WORDS = 500
VERSION = 1

FENCE = 3.0
"""Interquartile ranges beyond the quartiles from which a length is an outlier: Tukey's "far out", on logarithms of lengths."""
MIN_RANGE = np.log(1.5)
"""Lower bound of the interquartile range, so that a split of almost equal lengths does not have outliers everywhere."""


@dataclass(frozen=True)
class SplitProfile:
    """Profile of one split.

    Attributes:
        rows: Number of rows.
        labels: Rows per class id, or the distribution of regression targets; ``None`` for a split without labels.
        characters: Distribution of the rows' lengths in characters.
        words: Hashes of the ``WORDS`` most common words.
        coverage: Fraction of the occurrences of all words that these make up.
    """

    rows: int
    labels: Distribution | None
    characters: Distribution
    words: Keys
    coverage: float

    @classmethod
    def of(cls, split: RawSplit, labels: LabelSchema) -> Self:
        """Profile one raw split."""
        words = split.vocabulary.most_common(WORDS)
        return cls(
            rows=len(split.frame),
            labels=label_distribution(split, labels) if split.is_labelled else None,
            characters=Distribution.of_numbers(split.frame["characters"].to_numpy()),
            words=words,
            coverage=split.vocabulary.coverage(words),
        )


@dataclass(frozen=True)
class Profile:
    """Profile of all splits of one version of the data.

    Attributes:
        names: Class names; ``None`` for regression.
        splits: Profiles by name of the split.
    """

    names: tuple[str, ...] | None
    splits: Mapping[str, SplitProfile]

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``profile.json``."""
        return {
            "version": VERSION,
            "labels": None if self.names is None else list(self.names),
            "splits": {name: _to_json(split) for name, split in self.splits.items()},
        }

    def labels_as(self, labels: LabelSchema, split: str) -> Distribution | None:
        """Return the label distribution of a split by the class ids of another schema.

        Classes that the other schema lacks are counted in one more bin.

        Args:
            labels: The label schema whose ids are used.
            split: Name of the split.

        Returns:
            The distribution; ``None`` if the split had no labels or one of the two schemas is for regression only.
        """
        before = self.splits[split].labels
        if before is None or self.names is None or labels.names is None:
            return before if self.names == labels.names else None
        counts = dict(zip(self.names, before.counts, strict=False))
        current = [counts.pop(name, 0) for name in labels.names]
        removed = [sum(counts.values())] if counts else []
        return Distribution(tuple(float(edge) for edge in range(len(current) - 1 + len(removed))), (*current, *removed))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a profile.

        Raises:
            DataError: The file was not written by this version of the stage.
        """
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if values["version"] != VERSION:
                raise ValueError(f"version {values['version']} is not {VERSION}")
            names = None if values["labels"] is None else tuple(values["labels"])
            return cls(names, {name: _from_json(split) for name, split in values["splits"].items()})
        except (KeyError, TypeError, ValueError) as error:
            hint = "Fetch it again (`python -m flows.promotion.reference`), or remove the file."
            raise DataError(f"{path} is not a profile that this version can read: {error}.", hint) from None


def label_distribution(split: RawSplit, labels: LabelSchema) -> Distribution:
    """Return the distribution of a split's labels: per class, or binned at percentiles for regression."""
    if labels.names is None:
        return Distribution.of_numbers(split.labels.astype(np.float64))
    return Distribution.of_classes(split.labels.astype(np.int64), len(labels.names))


def _to_json(split: SplitProfile) -> dict[str, Any]:
    return {
        "rows": split.rows,
        "labels": None if split.labels is None else _distribution_to_json(split.labels),
        "characters": _distribution_to_json(split.characters),
        "words": {
            "hashes": [f"{value:016x}" for value in split.words.tolist()],
            "known": round(split.coverage, 6),
        },
    }


def _distribution_to_json(distribution: Distribution) -> dict[str, Any]:
    return {"edges": list(distribution.edges), "counts": list(distribution.counts)}


def _from_json(values: Mapping[str, Any]) -> SplitProfile:
    words = values["words"]
    return SplitProfile(
        rows=int(values["rows"]),
        labels=None if values["labels"] is None else _distribution_from_json(values["labels"]),
        characters=_distribution_from_json(values["characters"]),
        words=np.array([int(value, 16) for value in words["hashes"]], dtype=np.uint64),
        coverage=float(words["known"]),
    )


def _distribution_from_json(values: Mapping[str, Any]) -> Distribution:
    edges, counts = tuple(map(float, values["edges"])), tuple(map(int, values["counts"]))
    if len(counts) != len(edges) + 1:
        raise ValueError(f"a distribution with {len(edges)} edges has {len(counts)} counts instead of {len(edges) + 1}")
    return Distribution(edges, counts)


def length_limits(characters: Distribution) -> tuple[float, float] | None:
    """Return the shortest and the longest length in characters that is not an outlier; ``None`` for a distribution of no rows."""
    counts = np.array(characters.counts)
    if not characters.edges:
        return None
    cumulative = np.cumsum(counts)[:-1] / counts.sum()
    edges = np.log1p(np.array(characters.edges))
    lower, upper = (edges[min(np.searchsorted(cumulative, level), len(edges) - 1)] for level in (0.25, 0.75))
    reach = FENCE * max(upper - lower, MIN_RANGE)
    return float(max(np.expm1(lower - reach), 0.0)), float(np.expm1(upper + reach))
