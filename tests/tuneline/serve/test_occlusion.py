"""Effects of words: what a prediction without the word gives, and the words that are known to decide."""

from dataclasses import replace

import numpy as np
import pytest

from tests.exported_pipeline import published_pipeline
from tests.planted_words import planted
from tests.small_pipeline import QUEUES, WORDS
from tuneline.judge.decisions.rule import AnswerRule, CostRule
from tuneline.model.tasks import Multilabel
from tuneline.onnx.session import OnnxClassifier
from tuneline.serve.occlusion import MOST_REMOVALS, largest_effects, word_effects
from tuneline.serve.text_classifier import TextClassifier

PAIR = ("the parcel", "is late again, my refund was fine")
LONG = " ".join(WORDS * 2)


def load(factory, task, long_text="truncate", columns=("subject", "body")):
    folder = published_pipeline(factory, task, long_text, columns) / "models/onnx"
    return TextClassifier.load(folder, threads=1)


@pytest.fixture(scope="module")
def pair_model(tmp_path_factory):
    return load(tmp_path_factory, "classification")


@pytest.fixture(scope="module")
def text_model(tmp_path_factory):
    return load(tmp_path_factory, "classification", columns=("body",))


def without_word(row, effect, columns):
    """Return a row without a word, by hand: these texts have one space between words."""
    texts = list(row)
    number = columns.index(effect.column)
    assert texts[number][effect.start : effect.end] == effect.word
    left = texts[number][: effect.start].split()
    right = texts[number][effect.end :].split()
    texts[number] = " ".join(left + right)
    return tuple(texts)


def check_by_hand(model, row):
    """Check the effects of a row of one class or a number against predictions without each word."""
    effects = word_effects(model, row)
    (scores,) = model.outputs(model.encode([row]), 1)
    output = int(scores.argmax())
    for effect in effects:
        without = model.encode([without_word(row, effect, model.text_columns)])
        (changed,) = model.outputs(without, 1)
        assert effect.effect == pytest.approx(changed[output] - scores[output], abs=2e-6)
    sizes = [abs(effect.effect) for effect in effects]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 0.001
    return effects


def test_effects_are_those_of_predictions_without_each_word_of_both_texts(pair_model):
    effects = check_by_hand(pair_model, PAIR)
    words = [(effect.column, effect.word) for effect in effects]
    assert sorted(words) == sorted(
        [("subject", word) for word in PAIR[0].split()]
        + [("body", word) for word in PAIR[1].replace(",", " ,").split()]
    )
    assert {effect.label for effect in effects} == {pair_model.predict_one(PAIR).label}


def test_planted_words_are_found_with_their_effects_in_order(text_model, tmp_path):
    model = planted(text_model, tmp_path, {"late": [2.0, 0.0, 0.0], "fine": [-1.0, 0.0, 0.0]})
    effects = word_effects(model, ("my order is late and was fine again",))
    without_late, without_fine, base = [np.exp(x) / (np.exp(x) + 2) for x in (-1, 2, 1)]
    largest = largest_effects(effects, 5)
    assert [effect.word for effect in largest] == ["late", "fine"], "others change nothing"
    # the answer is the first class; without a word it is measured still
    assert largest[0].effect == pytest.approx(without_late - base, abs=2e-6)
    assert largest[1].effect == pytest.approx(without_fine - base, abs=2e-6)
    assert (largest[0].label, largest[0].start, largest[0].end) == (QUEUES[0], 12, 16)


def test_answer_is_the_one_that_costs_least(text_model, tmp_path):
    model = planted(text_model, tmp_path, {"late": [1.0, 0.0, 0.0]})
    errors = {right: {answer: 1.0 for answer in QUEUES if answer != right} for right in QUEUES}
    errors[QUEUES[2]] = dict.fromkeys(QUEUES[:2], 100.0)
    costly = replace(model, rule=AnswerRule(CostRule.of(errors, None, QUEUES)))
    assert word_effects(model, ("is late",))[0].label == QUEUES[0]
    assert word_effects(costly, ("is late",))[0].label == QUEUES[2]


def test_effect_is_on_the_label_that_a_word_changes_most(text_model, tmp_path):
    model = planted(text_model, tmp_path, {"late": [3.0, -4.0, 0.0], "refund": [0.0, 0.0, 3.0]})
    tags = replace(model, task=Multilabel(("delivery", "praise", "billing")))
    largest = largest_effects(word_effects(tags, ("late refund please",)), 5)
    change = 0.5 - 1 / (1 + np.exp(-3))
    assert [(effect.word, effect.label) for effect in largest] == [
        ("late", "delivery"),
        ("refund", "billing"),
    ]
    assert [effect.effect for effect in largest] == pytest.approx([change] * 2, abs=2e-6)


@pytest.mark.parametrize("row", [("late", ""), ("", "late"), ("late", " \n"), ("", "")])
def test_only_word_of_a_row_is_not_left_out_because_no_row_is_without_text(pair_model, row):
    assert word_effects(pair_model, row) == []


def test_long_row_is_predicted_a_bounded_number_of_times_and_its_deciding_words_are_found(
    text_model, tmp_path, monkeypatch
):
    model = planted(text_model, tmp_path, {"late": [2.0, 0.0, 0.0], "refund": [1.0, 0.0, 0.0]})
    model = replace(model, encoder=type(model.encoder)(
        model.encoder.tokenizer, model.encoder.name, 2000, model.long_text, "right"
    ))  # fmt: skip
    words = ["again"] * 1000
    words[700] = "late"
    words[32] = "refund"

    rows = 0
    logits = OnnxClassifier.logits

    def counted(self, batch):
        nonlocal rows
        rows += len(batch["input_ids"])
        return logits(self, batch)

    monkeypatch.setattr(OnnxClassifier, "logits", counted)
    effects = word_effects(model, (" ".join(words),))
    largest = [effect.word for effect in largest_effects(effects, 5)]
    assert largest == ["late again again again", "refund again again again"]  # runs start at multiples of 4
    assert len(effects) == 250
    assert rows <= MOST_REMOVALS * 32 / 31 + 4  # the row itself is in each pass

    one_more = MOST_REMOVALS
    effects = word_effects(model, (" ".join(["again"] * one_more),))
    assert len(effects) == one_more
