"""Do new texts look like those that the model was trained on?

Three things are compared with the train split in ``reports/checks/profile.json`` of the model's own commit: how long texts
are, which labels the model gives them, and how much of them is in words that were common in training. What is kept of new
texts are counts, so that many small files add up.

Population stability index: sum over bins of (p - q) ln(p / q); its chance under no change by Yurdakul and Naranjo,
"Statistical properties of the population stability index" (2020): PSI / (1/n + 1/m) is chi-squared with bins - 1 degrees of
freedom. Kolmogorov-Smirnov: the largest distance of the cumulative distributions, with its asymptotic significance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flows.scoring.words import word_counts
from flows.settings import DriftLimits

VERSION = 1
BINS = 10
Counts = NDArray[np.int64]


class ProfileError(Exception):
    """The training profile cannot be used."""


@dataclass(frozen=True)
class Distribution:
    """Numbers in bins: bin ``i`` holds what is above edge ``i - 1`` and not above edge ``i``."""

    edges: NDArray[np.float64]
    counts: Counts

    def count(self, values: NDArray[Any]) -> Counts:
        """Counts new values in the same bins."""
        return np.bincount(np.searchsorted(self.edges, values, side="left"), minlength=len(self.counts)).astype(np.int64)


@dataclass(frozen=True)
class Profile:
    """What the train split looked like.

    Attributes:
        names: Class names; ``None`` for a regression.
        labels: Of class ids, or of numbers; ``None`` for a split without labels.
        characters: Of the texts' lengths.
        words: Hashes of the commonest words.
        known: The share of all words that those make up; ``None`` for a profile without words.
    """

    names: tuple[str, ...] | None
    labels: Distribution | None
    characters: Distribution
    words: NDArray[np.uint64]
    known: float | None

    @classmethod
    def of(cls, values: Mapping[str, Any], split: str = "train") -> Self:
        """Reads ``reports/checks/profile.json``.

        Raises:
            ProfileError: It was written by another version of the line.
        """
        try:
            if values["version"] != VERSION:
                raise ValueError(f"version {values['version']}")
            one = values["splits"][split]
            words = one.get("words", {"hashes": [], "known": None})
            hashes = np.array([int(word, 16) for word in words["hashes"]], dtype=np.uint64)
            names = None if values["labels"] is None else tuple(values["labels"])
            labels = None if one["labels"] is None else _distribution(one["labels"])
            return cls(names, labels, _distribution(one["characters"]), hashes, words["known"])
        except (KeyError, TypeError, ValueError) as error:
            raise ProfileError(f"reports/checks/profile.json is none that this version reads: {error!r}") from None


def _distribution(values: Mapping[str, Any]) -> Distribution:
    return Distribution(np.array(values["edges"], dtype=np.float64), np.array(values["counts"], dtype=np.int64))


@dataclass(frozen=True)
class Seen:
    """Counts of scored rows, in the bins of a profile."""

    labels: Counts
    characters: Counts
    words: int
    words_known: int

    @classmethod
    def nothing(cls, profile: Profile) -> Self:
        """No row yet."""
        labels = np.zeros(len(profile.labels.counts) if profile.labels else 0, dtype=np.int64)
        return cls(labels, np.zeros_like(profile.characters.counts), 0, 0)

    @classmethod
    def of(cls, profile: Profile, texts: Sequence[pa.StringArray], predicted: pa.Array) -> Self:
        """Counts some rows.

        Args:
            profile: Gives the bins.
            texts: One array for each text column.
            predicted: Label names, or numbers.
        """
        lengths = np.sum([pc.utf8_length(column).to_numpy(zero_copy_only=False) for column in texts], axis=0)
        hashes, counts = word_counts(texts) if len(profile.words) else (profile.words, np.zeros(0, dtype=np.int64))
        return cls(
            _count_labels(profile, predicted),
            profile.characters.count(lengths),
            int(counts.sum()),
            int(counts[np.isin(hashes, profile.words)].sum()),
        )

    @property
    def rows(self) -> int:
        """How many."""
        return int(self.characters.sum())

    def __add__(self, other: "Seen") -> "Seen":
        """Both together."""
        words = (self.words + other.words, self.words_known + other.words_known)
        return Seen(self.labels + other.labels, self.characters + other.characters, *words)

    def to_json(self) -> dict[str, Any]:
        """For the metadata of a file."""
        counts = {"labels": self.labels.tolist(), "characters": self.characters.tolist()}
        return {**counts, "words": self.words, "words_known": self.words_known}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The way back."""
        labels, characters = (np.array(values[name], dtype=np.int64) for name in ("labels", "characters"))
        return cls(labels, characters, int(values["words"]), int(values["words_known"]))


def _count_labels(profile: Profile, predicted: pa.Array) -> Counts:
    if profile.labels is None:
        return np.zeros(0, dtype=np.int64)
    if profile.names is None:
        return profile.labels.count(predicted.to_numpy(zero_copy_only=False))
    ids = pc.index_in(predicted, pa.array(profile.names)).to_numpy(zero_copy_only=False)
    return profile.labels.count(ids[~np.isnan(ids)] if ids.dtype.kind == "f" else ids)


@dataclass(frozen=True)
class Measure:
    """How far one thing has moved.

    Attributes:
        name: What was measured.
        value: How far.
        chance: How often chance alone makes it as far; ``None`` where that was not asked.
        limit: How far it may be.
        drifted: Whether it is beyond both the limit and chance.
    """

    name: str
    value: float
    chance: float | None
    limit: float
    drifted: bool


def measure(profile: Profile, seen: Seen, limits: DriftLimits) -> list[Measure]:
    """Compares scored rows with the train split."""
    found = [_stability("length of texts, PSI", seen.characters, profile.characters.counts, limits)]
    found.append(_distance("length of texts, KS", seen.characters, profile.characters.counts, limits))
    if profile.labels is not None and seen.labels.sum():
        found.append(_stability("predicted labels, PSI", seen.labels, profile.labels.counts, limits))
    if profile.known and seen.words:
        share = seen.words_known / seen.words / profile.known
        found.append(
            Measure("share of common words, of that in training", share, None, limits.min_known_words, share < limits.min_known_words)
        )
    return found


def _stability(name: str, here: Counts, there: Counts, limits: DriftLimits) -> Measure:
    from scipy.stats import chi2

    here, there = _coarse(here, there)
    # Half a row in every bin, so that an empty one is no infinity.
    p, q = ((bins + 0.5) / (bins.sum() + 0.5 * len(bins)) for bins in (here, there))
    index = float(np.sum((p - q) * np.log(p / q)))
    chance = float(chi2.sf(index / (1 / max(here.sum(), 1) + 1 / max(there.sum(), 1)), max(len(here) - 1, 1)))
    return Measure(name, index, chance, limits.max_psi, index > limits.max_psi and chance < limits.significance)


def _distance(name: str, here: Counts, there: Counts, limits: DriftLimits) -> Measure:
    from scipy.stats import kstwobign

    p, q = (np.cumsum(bins) / max(bins.sum(), 1) for bins in (here, there))
    distance = float(np.abs(p - q).max(initial=0.0))
    n, m = int(here.sum()), int(there.sum())
    chance = float(kstwobign.sf(distance * np.sqrt(n * m / max(n + m, 1))))
    return Measure(name, distance, chance, limits.max_ks, distance > limits.max_ks and chance < limits.significance)


def _coarse(here: Counts, there: Counts) -> tuple[Counts, Counts]:
    """Joins neighbouring bins until at most ``BINS`` are left, as even in training as whole bins allow."""
    if len(there) <= BINS:
        return here, there
    middle = np.cumsum(there) - there / 2
    group = np.minimum(middle * BINS // max(int(there.sum()), 1), BINS - 1).astype(np.int64)
    _, starts = np.unique(group, return_index=True)
    return np.add.reduceat(here, starts), np.add.reduceat(there, starts)
