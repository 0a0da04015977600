"""No check fails on valid data of any script, size and task."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import Phase, given, settings

from tests.tuneline.checks.data import Data, params_for, tokenizer_of, words_of
from tuneline.checks.expectations import check_tables
from tuneline.checks.tables import derive_tables
from tuneline.core.paths import SPLITS
from tuneline.model.tasks import task_with_names

SCRIPTS = {
    "latin": "abcdefghijklmnopqrstuvwxyz",
    "accents": (
        "aàbcçdeéèêfioôuùûñ"
    ),  # without œ, ÿ, â and others: at random places in capitals they look like mojibake
    "greek": "αβγδεζηθικλμνξοπρστυφχψω",
    "cyrillic": "абвгдежзиклмнопрстуфхцчшщыэюя",
    "hebrew": "אבגדהוזחטיכלמנסעפצקרשת",
    "numbers": "0123456789",
}
ENDINGS = ("", ".", "!", " ?!", " …", " :-)", "\n", "  ")


@dataclass(frozen=True)
class Kind:
    """Description of a data set; the same description always gives the same data."""

    seed: int
    script: str
    columns: tuple[str, ...]
    classes: int | None
    rows: tuple[int, int, int]
    shape: Callable[[str], str]
    labelled: bool


KINDS = st.builds(
    Kind,
    seed=st.integers(0, 2**32),
    script=st.sampled_from(sorted(SCRIPTS)),
    columns=st.sampled_from([("text",), ("premise", "hypothesis")]),
    classes=st.sampled_from([None, 2, 3, 5]),
    rows=st.tuples(st.integers(60, 200), st.integers(20, 80), st.integers(20, 80)),
    shape=st.sampled_from([str.lower, str.capitalize, str.upper]),
    labelled=st.booleans(),
)


def generate(kind: Kind) -> Data:
    """Return data with random words."""
    rng = random.Random(kind.seed)
    words = ["".join(rng.choices(SCRIPTS[kind.script], k=rng.randint(3, 8))) for _ in range(60)]
    raw: dict[str, dict[str, list]] = {}
    for split, rows in zip(SPLITS, kind.rows, strict=True):
        labels = [rng.uniform(0, 5) if kind.classes is None else row % kind.classes for row in range(rows)]
        topics = [
            words_of(label > 2.5, 2, words) if kind.classes is None else words_of(label, kind.classes, words)
            for label in labels
        ]
        raw[split] = {name: [_text(rng, topic, kind.shape) for topic in topics] for name in kind.columns}
        raw[split]["labels"] = labels
    if not kind.labelled:
        raw["validation"]["labels"] = [-1] * kind.rows[1]
    params = params_for(kind.columns, "regression" if kind.classes is None else "classification")
    labels = task_with_names(
        None if kind.classes is None else tuple(f"class {number}" for number in range(kind.classes))
    )
    return Data(kind.columns, labels, params, raw, tokenizer_of(words)).tokenize()


def _text(rng: random.Random, words: list[str], shape) -> str:
    return " ".join(shape(word) for word in rng.choices(words, k=rng.randint(8, 14))) + rng.choice(ENDINGS)


# Checking a data set takes a second, so a failing example is not shrunk, which would take minutes.
@pytest.mark.slow
@settings(max_examples=20, derandomize=True, phases=[Phase.generate])
@given(kind=KINDS)
def test_generated_valid_data_passes(kind, tmp_path_factory):
    data = generate(kind)
    folders = data.write(tmp_path_factory.mktemp("valid") / "data")
    results = check_tables(derive_tables(data.params, folders, None))
    assert [
        (result.check, result.found) for result in results.record.checks if result.status != "passed"
    ] == []
    assert all(np.isfinite(value) for value in results.metrics.values())
