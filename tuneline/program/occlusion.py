"""Which words move an answer: the answer is predicted again without each of them.

The effect of a word is a measurement of this model on this text, and not a cause: a word that occurs
twice can have no effect although both together decide, and a text without a word may be one that nobody
writes. See Zeiler and Fergus 2014, "Visualizing and Understanding Convolutional Networks", section 4.2, and
for words Li, Monroe and Jurafsky 2016, "Understanding Neural Networks through Representation Erasure".
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.decisions.rule import answers_of
from tuneline.onnx.exported_model import ExportedModel
from tuneline.program.text_words import WordSpan, read_words, without
from tuneline.tasks import Classification, Multilabel, Regression, Task

MOST_REMOVALS = 256
"""Most predictions of a row without some of its words."""
DIGITS = 6
"""Digits after the decimal point of an effect: the same row differs in the seventh in another batch."""


ScoreChanges = Callable[[Sequence[tuple[str, ...]]], NDArray[np.float64]]
"""Returns how the scores of a row change in rows that lack some of its words, ``(rows, outputs)``."""


@dataclass(frozen=True)
class WordEffect:
    """How an answer changes without a word.

    Attributes:
        text_column: Name of the text that has the word, as in the training.
        word: The word.
        start: Position of its first character in the text.
        end: Position after its last character.
        label: The class or label whose probability changes; ``None`` if the answer is a number.
        effect: The probability or number without the word, minus the one with it: negative if the word
            supports the answer.
    """

    text_column: str
    word: str
    start: int
    end: int
    label: str | None
    effect: float


@dataclass(frozen=True)
class Occlusion:
    """The effects of the words of a row.

    Attributes:
        effects: Effects of the words that were left out one by one, the largest first, then by position.
        words: Number of words that the model reads; of more than ``MOST_REMOVALS``, not all have an effect.
    """

    effects: tuple[WordEffect, ...]
    words: int

    def largest(self, count: int) -> list[WordEffect]:
        """Return the largest effects, at most ``count``, without those that are 0."""
        return [effect for effect in self.effects[:count] if effect.effect != 0]


def word_effects(
    model: ExportedModel,
    texts: Sequence[str],
    outputs: Sequence[int] | None = None,
    *,
    batch_size: int = 32,
    before_batch: Callable[[], None] | None = None,
) -> Occlusion:
    """Measure how the answer for a row changes without each of its words.

    Each occurrence of a word is left out by itself. Of a row with more than ``MOST_REMOVALS`` words, runs of
    words are left out first, and then one by one the words of the runs that matter most. A word without which
    the row has no text is not measured, because such a row is never predicted.

    Args:
        model: The model.
        texts: One or two texts, as many as the model reads.
        outputs: Positions of classes or labels whose probabilities are measured. Of several, the one that a
            word changes most counts for the word. ``None``: the answer of the model (``answer_outputs``).
        batch_size: Rows of a forward pass; one of them is the row with all its words, because an int8 model
            rounds by what is in a batch.
        before_batch: Called before each forward pass; what it raises ends the measurement.

    Raises:
        DataError: The row has more or fewer texts than the model reads.
        EncodingError: The tokenizer fails on the row, or the shorter text of a pair leaves no room for
            windows of the longer one.
    """
    row = tuple(texts)
    encoded = model.encode([row])
    if outputs is None:
        scores = model.outputs(encoded, 1)
        (label,) = answers_of(model.task, scores, model.rule.costs).labels
        outputs = answer_outputs(model.task, scores[0], label)

    def changes_in(rows: Sequence[tuple[str, ...]]) -> NDArray[np.float64]:
        changes = np.zeros((len(rows), model.task.outputs))
        size = max(1, batch_size - 1)
        for start in range(0, len(rows), size):
            if before_batch is not None:
                before_batch()
            batch = [row, *rows[start : start + size]]
            scores = model.outputs(model.encode(batch), batch_size)
            changes[start : start + size] = scores[1:] - scores[0]
        return changes

    words = read_words(model, row)
    removed = _spans_to_leave_out(row, words, outputs, changes_in)
    effects = []
    changes = _output_changes(row, removed, outputs, changes_in)
    for word, change in zip(removed, changes, strict=True):
        output = int(np.abs(change).argmax())
        label = model.task.class_names[outputs[output]] if model.task.class_names else None
        effects.append(
            WordEffect(
                text_column=model.text_columns[word.text],
                word=row[word.text][word.start : word.end],
                start=word.start,
                end=word.end,
                label=label,
                effect=float(change[output]),
            )
        )
    effects.sort(key=lambda effect: -abs(effect.effect))  # of equal ones, the order remains
    return Occlusion(tuple(effects), len(words))


@singledispatch
def answer_outputs(task: Task, scores: NDArray[np.float64], label: Any) -> Sequence[int]:
    """Return the positions of the outputs of a model that make the answer for a row.

    Args:
        task: The task.
        scores: Probabilities or numbers of the row, ``(outputs,)``.
        label: Its answer, as the task has labels.
    """
    raise NotImplementedError(task.kind)


@answer_outputs.register(Classification)
def _(_task: Classification, _scores: NDArray[np.float64], label: Any) -> Sequence[int]:
    """Return the class."""
    return [int(label)]


@answer_outputs.register(Multilabel)
def _(_task: Multilabel, scores: NDArray[np.float64], label: Any) -> Sequence[int]:
    """Return the labels; if there are none, the most probable one."""
    labels = np.flatnonzero(label)
    if not len(labels):
        labels = np.array([scores.argmax()])
    return [int(position) for position in labels]


@answer_outputs.register(Regression)
def _(_task: Regression, _scores: NDArray[np.float64], _label: Any) -> Sequence[int]:
    """Return the number."""
    return [0]


def _spans_to_leave_out(
    row: tuple[str, ...], words: list[WordSpan], outputs: Sequence[int], changes_in: ScoreChanges
) -> list[WordSpan]:
    """Return the words that are left out one by one, in order: at most ``MOST_REMOVALS`` with their runs."""
    if len(words) <= MOST_REMOVALS:
        return [word for word in words if any(text.strip() for text in without(row, word))]

    runs = list(_runs(words, -(-len(words) // (MOST_REMOVALS // 2))))
    spans = [WordSpan(run[0].text, run[0].start, run[-1].end) for run in runs]
    changes = np.abs(_output_changes(row, spans, outputs, changes_in)).max(axis=1)

    chosen: list[int] = []
    left = MOST_REMOVALS - len(runs)
    for number in np.argsort(-changes, kind="stable"):
        if len(runs[number]) > left:
            break
        chosen.append(number)
        left -= len(runs[number])
    return [word for number in sorted(chosen) for word in runs[number]]


def _runs(words: list[WordSpan], length: int) -> Iterator[list[WordSpan]]:
    """Yield runs of as many words of one text; the last one of a text may have fewer."""
    for text in dict.fromkeys(word.text for word in words):
        text_words = [word for word in words if word.text == text]
        for start in range(0, len(text_words), length):
            yield text_words[start : start + length]


def _output_changes(
    row: tuple[str, ...], spans: Sequence[WordSpan], outputs: Sequence[int], changes_in: ScoreChanges
) -> NDArray[np.float64]:
    """Return the change of some scores of a row without each of some spans, ``(spans, len(outputs))``."""
    if not spans:
        return np.zeros((0, len(outputs)))
    changes = changes_in([without(row, span) for span in spans])[:, list(outputs)]
    return np.round(changes, DIGITS) + 0.0  # no negative zero
