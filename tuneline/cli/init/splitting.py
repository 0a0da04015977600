"""Assignment of the rows of one file to splits: stratified by label, random by a seed, and each text in one split only."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tuneline.cli.init.columns import UNLABELLED
from tuneline.cli.init.rows import Row


@dataclass
class Keys:
    """Hashes of the texts and their labels, which decide the splits; about 100 bytes per row.

    Attributes:
        texts: A hash per row, equal for equal texts (ignoring case, white space and the order of a pair); ``None`` for a row
            without text or label.
        labels: Label of each hash: that of its first row.
    """

    texts: list[int | None] = field(default_factory=list)
    labels: dict[int, str] = field(default_factory=dict)

    @property
    def left_out(self) -> int:
        """Number of rows without text or label."""
        return self.texts.count(None)


def keys_of(rows: Iterable[Row], text: Sequence[int], label: int, seed: int, regression: bool) -> Keys:
    """Hash the rows of a file.

    Args:
        rows: Its rows.
        text: Positions of the text columns.
        label: Position of the label column.
        seed: Seed of the random assignment.
        regression: The labels are numbers, by which rows cannot be stratified.
    """
    keys = Keys()
    for row in rows:
        value = (row[label] or "").strip()
        parts = sorted(" ".join((row[position] or "").casefold().split()) for position in text)
        if value in (UNLABELLED if not regression else {""}) or not any(parts):
            keys.texts.append(None)
            continue
        digest = hashlib.blake2b("\x00".join([str(seed), *parts]).encode("utf-8", "replace"), digest_size=8)
        key = int.from_bytes(digest.digest(), "big")
        keys.texts.append(key)
        keys.labels.setdefault(key, "" if regression else value)
    return keys


def assign(keys: Keys, fractions: Mapping[str, float]) -> list[str | None]:
    """Return the split of each row.

    Args:
        keys: Hashes and labels of the rows.
        fractions: Fraction of the texts of each label per split; train takes the rest. Counts are rounded down, so that a rare
            label stays in train.

    Returns:
        One name per row; ``None`` for a row that is left out.
    """
    by_label: dict[str, list[int]] = defaultdict(list)
    for key, label in keys.labels.items():
        by_label[label].append(key)
    split_of = dict.fromkeys(keys.labels, "train")
    for texts in by_label.values():
        texts.sort()  # hashes that depend on the seed: a random order
        start = 0
        for split, fraction in fractions.items():
            stop = start + int(fraction * len(texts))
            split_of.update(dict.fromkeys(texts[start:stop], split))
            start = stop
    return [None if key is None else split_of[key] for key in keys.texts]
