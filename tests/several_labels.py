"""A generated sample with several labels per text, that a tiny model learns in seconds."""

import json
import random
from pathlib import Path
from typing import Any

PHRASES = {
    "billing": ("the invoice is wrong", "I was charged twice", "please send my refund"),
    "damaged": ("the box was crushed", "the glass is broken", "the cover is torn"),
    "delivery": ("the parcel is late", "the courier did not ring", "tracking shows nothing"),
    "praise": ("thank you for the help", "the team was lovely", "great shop"),
}
"""What a text says for each label."""
OPENINGS = ("hello", "good morning", "dear team", "hi there")
"""What every text begins with, and all that a text without a label says."""
TAGS = tuple(PHRASES)
DAMAGED_ALONE = 0.1
"""Fraction of the damaged parcels that are not late: labels occur together."""


def tagged_texts(rows: int, seed: int = 0) -> list[tuple[str, list[str]]]:
    """Return texts with their labels, sorted: none for one text in eight, and up to three."""
    generator = random.Random(seed)
    tagged = []
    for _ in range(rows):
        tags = set()
        if generator.random() > 0.125:
            tags = set(generator.sample(TAGS, generator.choice((1, 1, 2))))
        if "damaged" in tags and generator.random() > DAMAGED_ALONE:
            tags.add("delivery")
        sentences = [generator.choice(PHRASES[tag]) for tag in sorted(tags)]
        generator.shuffle(sentences)
        opening = f"{generator.choice(OPENINGS)} number {generator.randrange(rows)}"
        tagged.append((". ".join([opening, *sentences]), sorted(tags)))
    return tagged


def write_tagged_file(path: Path, rows: int, seed: int = 0) -> None:
    """Write a JSON Lines file whose column ``tags`` is a list."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for text, tags in tagged_texts(rows, seed):
            file.write(json.dumps({"text": text, "tags": tags}) + "\n")


DATA: dict[str, Any] = {
    "source": "files",
    "path": "parcels",
    "splits": {"train": "all", "validation": "validation", "test": "test"},
    "split": {"validation": 0.2, "test": 0.3, "stratify": True},
    "text_columns": ["text"],
    "label_column": "tags",
    "label_sets": {"layout": "lists"},
    "task": "multilabel",
}
"""Section ``data`` of a project whose file is ``data/source/parcels/all.jsonl``."""
TRAIN: dict[str, Any] = {
    "metric": "macro_f1",
    "epochs": 12,
    "learning_rate": 1e-3,
    "global_batch_size": 16,
    "micro_batch_size": 16,
    "launch": "cpu",
}
ROWS = 900
"""Rows of the file, with which the model reaches a macro F1 of 0.99."""
MODEL: dict[str, Any] = {
    "config": {
        "model_type": "bert",
        "hidden_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 128,
        "initializer_range": 0.1,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
}
