"""Whatever good data looks like, no check fails on it."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
from hypothesis import Phase, given, settings

from stages.validate.checking import check
from tests.stages.validate.data import Data, params_for, tokenizer_of
from tuneline.files.schemas import LabelSchema
from tuneline.paths import SPLITS

SCRIPTS = {
    "latin": "abcdefghijklmnopqrstuvwxyz",
    "accents": "aàâbcçdeéèêëfiîïoôœuùûüÿñ",
    "greek": "αβγδεζηθικλμνξοπρστυφχψω",
    "cyrillic": "абвгдежзиклмнопрстуфхцчшщыэюя",
    "hebrew": "אבגדהוזחטיכלמנסעפצקרשת",
    "numbers": "0123456789",
}
ENDINGS = ("", ".", "!", " ?!", " …", " :-)", "\n", "  ")


@dataclass(frozen=True)
class Kind:
    """A kind of data, from which the same seed always makes the same."""

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


def made(kind: Kind) -> Data:
    """Rows of random words."""
    chance = random.Random(kind.seed)
    words = ["".join(chance.choices(SCRIPTS[kind.script], k=chance.randint(3, 8))) for _ in range(60)]
    raw: dict[str, dict[str, list]] = {}
    for split, rows in zip(SPLITS, kind.rows, strict=True):
        raw[split] = {name: [_text(chance, words, kind.shape) for _ in range(rows)] for name in kind.columns}
        raw[split]["labels"] = [chance.uniform(0, 5) if kind.classes is None else row % kind.classes for row in range(rows)]
    if not kind.labelled:
        raw["validation"]["labels"] = [-1] * kind.rows[1]
    params = params_for(kind.columns, "regression" if kind.classes is None else "classification")
    labels = LabelSchema(None if kind.classes is None else tuple(f"class {number}" for number in range(kind.classes)))
    return Data(kind.columns, labels, params, raw, tokenizer_of(words)).tokenize()


def _text(chance: random.Random, words: list[str], shape) -> str:
    return " ".join(shape(word) for word in chance.choices(words, k=chance.randint(8, 14))) + chance.choice(ENDINGS)


# A check of a whole data set takes a second: a failing one is told as it is, not shrunk for minutes.
@settings(max_examples=8, deadline=None, derandomize=True, phases=[Phase.generate])
@given(kind=KINDS)
def test_generated_data_raises_no_alarm(kind, tmp_path_factory):
    data = made(kind)
    places = data.write(tmp_path_factory.mktemp("good") / "data")
    verdict = check(data.params, places, None).verdict
    assert [(finding.outcome.check, finding.found) for finding in verdict.findings if finding.status != "passed"] == []
    assert all(np.isfinite(value) for value in verdict.figures.values())
