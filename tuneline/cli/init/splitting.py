"""Cuts one file into splits: by label, drawn with a seed, and never the same text on both sides."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tuneline.cli.init.profiling import UNLABELLED
from tuneline.cli.init.rows import Row


@dataclass
class Keys:
    """What of each row decides its split; about 100 bytes a row.

    Attributes:
        texts: A number per row, the same for the same text (in capitals or not, as a pair in either order); ``None`` for a
            row without text or label.
        labels: The label of each text, as it was met first.
    """

    texts: list[int | None] = field(default_factory=list)
    labels: dict[int, str] = field(default_factory=dict)

    @property
    def left_out(self) -> int:
        """Rows without text or label."""
        return self.texts.count(None)


def keys_of(rows: Iterable[Row], text: Sequence[int], label: int, seed: int, regression: bool) -> Keys:
    """Reads a file through.

    Args:
        rows: Its rows.
        text: Where the text columns stand.
        label: Where the label column stands.
        seed: Of the draw.
        regression: Numbers are not drawn label by label.
    """
    keys = Keys()
    for row in rows:
        said = (row[label] or "").strip()
        parts = sorted(" ".join((row[place] or "").casefold().split()) for place in text)
        if said in (UNLABELLED if not regression else {""}) or not any(parts):
            keys.texts.append(None)
            continue
        digest = hashlib.blake2b("\x00".join([str(seed), *parts]).encode("utf-8", "replace"), digest_size=8)
        key = int.from_bytes(digest.digest(), "big")
        keys.texts.append(key)
        keys.labels.setdefault(key, "" if regression else said)
    return keys


def assign(keys: Keys, shares: Mapping[str, float]) -> list[str | None]:
    """The split of each row.

    Args:
        keys: What decides.
        shares: Of each split but train, which takes the rest. Shares of a label are rounded down, so a rare label stays in train.

    Returns:
        One name per row; ``None`` for a row left out.
    """
    by_label: dict[str, list[int]] = defaultdict(list)
    for key, label in keys.labels.items():
        by_label[label].append(key)
    split_of = dict.fromkeys(keys.labels, "train")
    for texts in by_label.values():
        texts.sort()  # hashes: this is the draw
        start = 0
        for split, share in shares.items():
            stop = start + int(share * len(texts))
            split_of.update(dict.fromkeys(texts[start:stop], split))
            start = stop
    return [None if key is None else split_of[key] for key in keys.texts]
