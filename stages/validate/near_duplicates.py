"""Rows that repeat or resemble another row: copies by their keys, and near-duplicates of all rows, in a split and in earlier splits.

Of near-duplicates, sampled words find candidates, and their similarity decides. Every word draws an
exponential variate with its weight as the rate, and the first word of a row is its sample. Two rows have the
same sample with a probability equal to their similarity (``tuneline/analysis/similarity.py``; Moulton and
Jiang, "Maximally Consistent Sampling and the Jaccard Index of Probability Distributions", 2018), as with
MinHash for words of equal weight (Broder 1997). Rows are candidates if they have the same ``WIDTH`` samples
of a band. Bands are made and searched one after the other, by sorting partitions of their keys. The words of
the rows and the previews are in files; memory holds about 30 bytes per row and 40 per different word.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.validate.columns import RaggedArray, Rows
from stages.validate.raw import RawSplit
from tuneline.analysis.similarity import MappedArray, WordSets, partitions
from tuneline.analysis.text import EncodedWords, Keys, mixed
from tuneline.tasks import Task

Numbers = NDArray[np.int32]
"""Row numbers, of which ten million take 40 MB; at most two billion rows."""

NO_ROW = -1
"""Marks a row that repeats or resembles no other."""
NUMBERED_THROUGH = ("leak_of", "near_duplicate_of")
"""Columns whose rows are numbered through all splits; those of the other columns are rows of the split itself."""


def first_copies(keys: Keys) -> Numbers:
    """Return, for each row, the first row with the same key; ``NO_ROW`` for that first row itself."""
    origin = np.full(len(keys), NO_ROW, np.int32)
    for rows in partitions(keys):
        _, first, inverse = np.unique(keys[rows], return_index=True, return_inverse=True)
        originals = rows[first[inverse]]
        origin[rows] = np.where(originals == rows, NO_ROW, originals)
    return origin


def label_conflicts(keys: Keys, labels: NDArray[Any], tolerance: float) -> Numbers:
    """Return, for each row, a row of the split that has the same text and a label that differs by more than ``tolerance``."""
    result = np.full(len(keys), NO_ROW, np.int32)
    for rows in partitions(keys):
        order = rows[np.lexsort((labels[rows], keys[rows]))]
        sorted_keys, sorted_labels = keys[order], labels[order].astype(np.float64)
        starts = np.flatnonzero(np.r_[True, sorted_keys[1:] != sorted_keys[:-1]])[: len(rows)]
        ends = np.r_[starts[1:], len(rows)] - 1
        text = np.repeat(np.arange(len(starts)), ends - starts + 1)
        low, high = starts[text], ends[text]
        # Rows of one text are sorted by label, so the most different label is at one of the two ends.
        to_low, to_high = sorted_labels - sorted_labels[low], sorted_labels[high] - sorted_labels
        other = np.where(to_high >= to_low, high, low)
        result[order] = np.where(sorted_labels[high] - sorted_labels[low] > tolerance, order[other], NO_ROW)
    return result


def first_leaks(earlier: Sequence[Keys], keys: Keys) -> Numbers:
    """Return, for each row of a split, the first row of the earlier splits with the same key, numbered through all of them."""
    before = sum(map(len, earlier))
    origin = first_copies(np.concatenate([*earlier, keys]))[before:]
    return np.where(
        origin < before, origin, np.int32(NO_ROW)
    )  # else the first row with this key is in the split itself


WIDTH = 4
"""Samples of a band.

With 3, a million rows have ten times as many candidates; with 5, twice as many samples find as much.
"""
MISSED = 0.08
"""Fraction of the pairs of exactly the required similarity that no band finds; of more similar pairs, fewer are missed."""
MAX_PER_BAND = 4
"""Rows of a band that a row is compared with: thousands of rows with the same samples are alike."""
PREVIEW = 32
"""Samples of which a byte is kept for each row, to drop candidates without looking at their words."""
PAIRS_AT_A_TIME = 1 << 17
ROWS_AT_A_TIME = 1 << 16
WORDS_AT_A_TIME = 1 << 16
THREADS = 2
_LESS = 1 - 1e-4
"""Two rows are not more similar than the lighter is to the heavier one; sums of weights have rounding errors."""


@dataclass(frozen=True)
class NearDuplicateRows:
    """A similar row for each row of a split, with their similarity, 0 for none; int32 and float32 of shape ``(rows,)``.

    It is a row of an earlier split if there is one, else an earlier row of the same split, numbered through
    all splits, or ``NO_ROW``.
    """

    origin: Numbers
    similarity: NDArray[np.float32]


def find_near_duplicates(
    words: Sequence[Iterable[EncodedWords]], keys: Sequence[Keys], similarity: float
) -> list[NearDuplicateRows]:
    """Search every split for rows that resemble an earlier row by at least ``similarity``, but do not repeat it.

    ``words`` are those of the rows of each split, in batches, which are read once; earlier splits first. Of
    rows with the same of the ``keys`` of their texts, the first is searched: others are copies.
    """
    if not keys:
        return []
    sizes = [len(split) for split in keys]
    split = np.repeat(np.arange(len(sizes), dtype=np.int8), sizes)
    original = first_copies(np.concatenate(keys))
    search = Search(WordSets.of(chain.from_iterable(words)), split, similarity)
    search.run((original == NO_ROW) & (search.sets.totals > 0))
    # A copy within its split resembles what its original resembles. A copy of a row in an earlier split is a
    # leak only.
    copies = np.flatnonzero(original != NO_ROW)
    copies = copies[split[original[copies]] == split[copies]]
    search.origin[copies], search.similarity[copies] = (
        search.origin[original[copies]],
        search.similarity[original[copies]],
    )
    ends = np.cumsum(sizes)[:-1]
    return [
        NearDuplicateRows(*parts)
        for parts in zip(np.split(search.origin, ends), np.split(search.similarity, ends), strict=True)
    ]


class Search:
    """The search of all rows, given their words and the number of the split of each (int8), earlier splits first.

    ``origin`` and ``similarity`` are as in ``NearDuplicateRows``, for all rows.
    """

    def __init__(self, sets: WordSets, split: NDArray[np.int8], similarity: float) -> None:
        self.sets = sets
        self.split = split
        self.required = similarity
        self.origin = np.full(len(split), NO_ROW, np.int32)
        self.similarity = np.zeros(len(split), np.float32)
        self._preview = MappedArray.zeros((len(split), PREVIEW), np.uint8)
        self._threads = ThreadPoolExecutor(THREADS)  # NumPy releases the lock of the interpreter

    def run(self, chosen: NDArray[np.bool_]) -> None:
        """Compare the rows that are ``chosen``, a mask of shape ``(rows,)``, with each other.

        Each has words.
        """
        if not chosen.any():
            return
        for first in range(0, PREVIEW, WIDTH):
            for start, samples in self._samples(first):
                self._preview.values[start : start + samples.shape[1], first : first + WIDTH] = (
                    samples.astype(np.uint8).T
                )
                self._preview.release()
        for first in range(PREVIEW, PREVIEW + WIDTH * bands(self.required), WIDTH):
            keys = self._band_keys(first)
            for rows in partitions(keys):
                compared = rows[chosen[rows]]
                for left, right in candidates(keys[compared], self.split[compared]):
                    self._compare(compared[left], compared[right])

    def _band_keys(self, first: int) -> Keys:
        """Return the key of each row in the band of the samples from ``first``, of shape ``(rows,)``."""
        keys = np.zeros(len(self.split), np.uint64)
        for start, samples in self._samples(first):
            some = slice(start, start + samples.shape[1])
            for sample in samples:
                keys[some] = mixed(keys[some], sample.astype(np.uint64))
        return keys

    def _samples(self, first: int) -> Iterator[tuple[int, NDArray[np.uint32]]]:
        """Yield ``WIDTH`` samples of rows, numbered from ``first``: the first row, and samples of shape ``(WIDTH, rows)``.

        A sample is the variate of the first word, as bits, which have the same order; 0 for a row without
        words.
        """
        numbers = np.arange(first, first + WIDTH, dtype=np.uint64)
        variates = np.empty((WIDTH, len(self.sets.keys)), np.uint32)

        def draw(start: int) -> None:
            some = slice(start, start + WORDS_AT_A_TIME)
            uniform = (
                (mixed(self.sets.keys[some], numbers[:, None]) >> np.uint64(11)) + np.uint64(1)
            ) * 2.0**-53
            variates[:, some] = (
                (-np.log(uniform) / self.sets.weights[some]).astype(np.float32).view(np.uint32)
            )

        def smallest(start: int) -> tuple[int, NDArray[np.uint32]]:
            ends = self.sets.starts[start : start + ROWS_AT_A_TIME + 1]
            block = RaggedArray(self.sets.ids.values[ends[0] : ends[-1]], np.diff(ends))
            places = block.values.astype(np.intp)  # take() needs these; it is faster than an index
            self.sets.ids.release()
            return start, np.stack(
                [block.reduce(np.minimum, row.take(places), 0) for row in variates]
            ).astype(np.uint32)

        list(self._threads.map(draw, range(0, variates.shape[1], WORDS_AT_A_TIME)))
        yield from self._threads.map(smallest, range(0, len(self.split), ROWS_AT_A_TIME))

    def _compare(self, left: Rows, right: Rows) -> None:
        """Compare pairs of rows, and keep the most similar one of each first row.

        A row of an earlier split replaces one of the same.
        """
        known = self.origin[left]
        is_open = (known == NO_ROW) | (
            (self.split[known] == self.split[left]) & (self.split[right] < self.split[left])
        )
        left, right = left[is_open], right[is_open]

        def similar(start: int) -> tuple[Rows, NDArray[np.float32]]:
            some = slice(start, start + PAIRS_AT_A_TIME)
            close = start + self._may_be_similar(left[some], right[some])
            similarity = self.sets.similarity(left[close], right[close])
            return close[similarity >= self.required], similarity[similarity >= self.required]

        found = list(self._threads.map(similar, range(0, len(left), PAIRS_AT_A_TIME)))
        if not found:
            return
        pairs, similarity = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.argsort(similarity, kind="stable")  # of several assignments to a row, the last counts
        self.origin[left[pairs[order]]], self.similarity[left[pairs[order]]] = (
            right[pairs[order]],
            similarity[order],
        )

    def _may_be_similar(self, left: Rows, right: Rows) -> Rows:
        """Return the positions of pairs whose similarity may be as required, by what is in memory for each row."""
        one, other = self.sets.totals[left], self.sets.totals[right]
        places = np.flatnonzero(np.minimum(one, other) > _LESS * self.required * np.maximum(one, other))
        preview = self._preview.values
        common = np.count_nonzero(preview[left[places]] == preview[right[places]], axis=1)
        self._preview.release()
        # At least three standard deviations below the mean number of equal bytes of this similarity.
        least = int(PREVIEW * self.required - 3 * math.sqrt(PREVIEW * self.required * (1 - self.required)))
        likely: Rows = places[common >= least]
        return likely


def bands(similarity: float) -> int:
    """Return the number of bands that misses the fraction ``MISSED`` of pairs of exactly this similarity."""
    return math.ceil(math.log(MISSED) / math.log1p(-(similarity**WIDTH)))


def candidates(keys: Keys, split: NDArray[np.int8]) -> Iterator[tuple[Rows, Rows]]:
    """Yield pairs of rows with the same key, the later row first: those of two splits, then those of one split.

    Keys and splits have the shape ``(rows,)``; splits ascend. A row is compared with the last
    ``MAX_PER_BAND`` rows of earlier splits, and with as many rows before it in its own.
    """
    order = np.argsort(keys, kind="stable")
    place = np.arange(len(order))
    new_key = np.diff(keys[order]) != 0
    start = _starts(new_key, place)
    start_of_split = _starts(new_key | (np.diff(split[order]) != 0), place)
    for before, first in ((start_of_split, start), (place, start_of_split)):
        steps = [(np.flatnonzero(before - step >= first), step) for step in range(1, MAX_PER_BAND + 1)]
        yield (
            order[np.concatenate([places for places, _ in steps])],
            order[np.concatenate([before[places] - step for places, step in steps])],
        )


def _starts(is_new: NDArray[np.bool_], place: Rows) -> Rows:
    """Return the place where the run of equal values of each place starts."""
    return np.maximum.accumulate(np.where(np.r_[True, is_new], place, 0))


def copy_columns(
    raw: Mapping[str, RawSplit], split: str, near_duplicates: NearDuplicateRows, labels: Task
) -> dict[str, NDArray[np.generic]]:
    """Return, for each row of a split, the row that it repeats or resembles, given all raw splits, earlier ones first.

    Columns have the shape ``(rows,)``, and ``NO_ROW`` for a row that repeats no other. ``duplicate_of`` and
    ``conflict_with`` are rows of the split itself. ``leak_of`` and ``near_duplicate_of`` are rows numbered
    through all splits; ``similarity`` belongs to the latter.
    """
    current = raw[split]
    columns: dict[str, NDArray[np.generic]] = {"duplicate_of": first_copies(current.keys)}
    if current.is_labelled:
        tolerance = labels.label_tolerance(current.labels)
        columns["conflict_with"] = label_conflicts(current.keys, current.labels, tolerance)
    if earlier := list(raw)[: list(raw).index(split)]:
        columns["leak_of"] = first_leaks(
            [raw[name].unordered_keys for name in earlier], current.unordered_keys
        )
    return columns | {"near_duplicate_of": near_duplicates.origin, "similarity": near_duplicates.similarity}


def copy_notes(
    raw: Mapping[str, RawSplit], columns: Mapping[str, NDArray[np.generic]]
) -> dict[str, list[str]]:
    """Return a line for the checks ``leakage`` and ``near_duplicates``: how many rows of ``copy_columns`` are like a row of which split."""
    ends = np.cumsum([split.rows for split in raw.values()])
    notes = {}
    for check, column, verb in (
        ("leakage", "leak_of", "repeat"),
        ("near_duplicates", "near_duplicate_of", "resemble"),
    ):
        origin = columns.get(column, np.empty(0, np.int64))
        counts = np.bincount(
            np.searchsorted(ends, origin[origin != NO_ROW], side="right"), minlength=len(raw)
        )
        parts = [
            f"{count:,} {verb}{'s' * (count == 1)} a row of {name}"
            for name, count in zip(raw, counts.tolist(), strict=True)
            if count
        ]
        if parts:
            notes[check] = [f"Of these rows, {', '.join(parts)}."]
    return notes
