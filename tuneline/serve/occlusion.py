"""Which words move an answer: the answer is predicted again without each of them.

The effect of a word is a measurement of this model on this text, and not a cause: a word that occurs
twice can have no effect although both together decide, and a text without a word may be one that nobody
writes. See Zeiler and Fergus 2014, "Visualizing and Understanding Convolutional Networks", section 4.2, and
for words Li, Monroe and Jurafsky 2016, "Understanding Neural Networks through Representation Erasure".

A word is a run of letters and digits, with single marks such as apostrophes, hyphens and decimal points
between them; a run of other characters, such as punctuation or emoji, is a word, too, because a model reads
it. Where a script has no spaces between words, as Chinese or Thai, a word is a token of the model's
tokenizer.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import category

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Regex
from tokenizers.pre_tokenizers import Split

from tuneline.core.stage.records import DIGITS, NUMBER_DIGITS, decimal_places
from tuneline.judge.decisions.rule import answers_of
from tuneline.model.tasks import Task
from tuneline.onnx.exported_model import ExportedModel

MOST_REMOVALS = 256
"""Most predictions of a row without some of its words, but for the last run of each text."""
UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Letters of scripts without spaces: Thai, Lao, Tibetan, Burmese, Khmer, kana, ideographs."""
UNSPACED_LETTER = re.compile(f"[{UNSPACED}]")
LETTER = rf"[\p{{L}}\p{{N}}\p{{M}}\p{{Cf}}&&[^{UNSPACED}]]"
WORDS = Split(
    Regex(
        rf"[{UNSPACED}\p{{M}}]+"
        rf"|{LETTER}+(?:['’\-.,:/@_]{LETTER}+)*"  # noqa: RUF001 - both apostrophes
        r"|[^\s\p{L}\p{N}]+"
    ),
    behavior="removed",
    invert=True,
)
"""What divides a text into words; those of scripts without spaces are divided further."""
Span = tuple[int, int, int]
"""A word, or some that follow each other: the position of its text in the row, its start, and its end."""


@dataclass(frozen=True)
class WordEffect:
    """How an answer changes without a word.

    Attributes:
        word: The word; of a row with more than ``MOST_REMOVALS`` words, several that follow each other.
        effect: The probability or number without the word, minus the one with it: negative if the word
            supports the answer.
        label: The class or label whose probability changes; ``None`` if the answer is a number.
        column: Name of the text that has the word, as in the training.
        start: Position of its first character in the text.
        end: Position after its last character.
    """

    word: str
    effect: float
    label: str | None
    column: str
    start: int
    end: int


def word_effects(
    model: ExportedModel,
    texts: Sequence[str],
    outputs: Sequence[int] | None = None,
    *,
    batch_size: int = 32,
    before_batch: Callable[[], None] | None = None,
) -> list[WordEffect]:
    """Measure how the answer for a row changes without each of its words.

    Each occurrence of a word is left out by itself. A word without which the row has no text is not measured,
    because such a row is never predicted.

    Args:
        model: The model.
        texts: One or two texts, as many as the model reads.
        outputs: Positions of classes or labels whose probabilities are measured. Of several, the one that a
            word changes most counts for the word. ``None``: the answer of the model (``answer_outputs``).
        batch_size: Rows of a forward pass; one of them is the row with all its words, because an int8 model
            rounds by what is in a batch.
        before_batch: Called before each forward pass; what it raises ends the measurement.

    Returns:
        The effects, the largest first, then by position.

    Raises:
        DataError: The row has more or fewer texts than the model reads.
        EncodingError: The tokenizer fails on the row, or the shorter text of a pair leaves no room for
            windows of the longer one.
    """
    row = tuple(texts)
    if outputs is None:
        scores = model.outputs(model.encode([row]), 1)
        (label,) = answers_of(model.task, scores, model.rule.costs).labels
        outputs = answer_outputs(model.task, scores[0], label)

    spans = []
    rows = []
    for span in _runs(read_words(model, row)):
        shorter = without(row, span)
        if any(text.strip() for text in shorter):
            spans.append(span)
            rows.append(shorter)

    effects = []
    size = max(1, batch_size - 1)
    for first in range(0, len(rows), size):
        if before_batch is not None:
            before_batch()
        batch = [row]
        batch += rows[first : first + size]
        scores = model.outputs(model.encode(batch), batch_size)[:, list(outputs)]
        # no digits of which the same row has others in another batch, and no negative zero
        changes = np.round(scores[1:] - scores[0], _digits(model.task, scores[0])) + 0.0
        for (text, start, end), change in zip(spans[first : first + size], changes, strict=True):
            if not np.isfinite(change).all():
                continue
            largest = int(np.abs(change).argmax())
            label = None
            if model.task.class_names:
                label = model.task.class_names[outputs[largest]]
            word = row[text][start:end]
            effects.append(
                WordEffect(word, float(change[largest]), label, model.text_columns[text], start, end)
            )
    effects.sort(key=lambda effect: -abs(effect.effect))  # of equal ones, the order remains
    return effects


def _digits(task: Task, scores: NDArray[np.float64]) -> int:
    """Return the digits after the decimal point of an effect on these scores of a row."""
    if task.has_classes:
        return DIGITS
    return decimal_places(float(scores[0]), NUMBER_DIGITS)


def largest_effects(effects: Sequence[WordEffect], count: int) -> list[WordEffect]:
    """Return the largest effects, at most ``count``, without those that are 0."""
    return [effect for effect in effects[:count] if effect.effect != 0]


def answer_outputs(task: Task, scores: NDArray[np.float64], label: Any) -> list[int]:
    """Return the positions of the outputs of a model that make the answer for a row.

    They are the class; or the labels, and if there are none, the most probable one; or the number.

    Args:
        task: The task.
        scores: Probabilities or numbers of the row, ``(outputs,)``.
        label: Its answer, as the task has labels.
    """
    if not task.has_classes:
        return [0]
    if task.one_class:
        return [int(label)]
    labels: list[int] = np.flatnonzero(label).tolist()
    return labels or [int(scores.argmax())]


def read_words(model: ExportedModel, texts: Sequence[str]) -> list[Span]:
    """Return the words of a row that the model reads, in order.

    Args:
        model: The model: what it reads of a long row depends on its length.
        texts: One or two texts.

    Raises:
        DataError: The shorter text of a pair leaves no room for windows of the longer one.
    """
    # with the places of the tokens in the texts, which the fast encoding of batches lacks
    second = None
    if len(texts) == 2:
        second = texts[1]
    encoding = model.encoder.tokenizer.encode(texts[0], second)
    is_read = _read_tokens(model, encoding)

    words = []
    for text, part in enumerate(texts):
        starts = set()
        read_characters = np.zeros(len(part), dtype=bool)
        for token, (start, end) in enumerate(encoding.offsets):
            if encoding.token_to_sequence(token) == text and start != end:
                starts.add(start)
                read_characters[start:end] |= is_read[token]

        for start, end in _words(part, starts):
            if read_characters[start:end].any():
                words.append((text, start, end))
    return words


def without(texts: Sequence[str], span: Span) -> tuple[str, ...]:
    """Return the texts of a row as they would be without a word.

    A space beside it goes with it, and a space comes where letters on both sides would become one word.
    """
    number, start, end = span
    before = texts[number][:start]
    after = texts[number][end:]
    if not before or before[-1].isspace():
        if after[:1].isspace():
            after = after[1:]
        elif not after:
            before = before[:-1]
    elif before[-1].isalnum() and after[:1].isalnum() and not UNSPACED_LETTER.match(after):
        before += " "
    shorter = list(texts)
    shorter[number] = before + after
    return tuple(shorter)


def _runs(words: Sequence[Span]) -> Iterator[Span]:
    """Yield the words; of more than ``MOST_REMOVALS``, runs of words of one text."""
    length = max(1, -(-len(words) // MOST_REMOVALS))
    for text in (0, 1):
        text_words = [word for word in words if word[0] == text]
        for first in range(0, len(text_words), length):
            run = text_words[first : first + length]
            yield text, run[0][1], run[-1][2]


def _read_tokens(model: ExportedModel, encoding: Encoding) -> np.ndarray:
    """Return which tokens of an encoded row the model reads, bool ``(tokens,)``."""
    cuts, _ = model.encoder.cuts(encoding)
    is_read = np.zeros(len(encoding), dtype=bool)
    for cut in cuts:
        for tokens in cut:
            is_read[tokens] = True
    return is_read


def _words(text: str, token_starts: set[int]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each word of a text, whose tokens start at these characters."""
    for piece, (start, end) in WORDS.pre_tokenize_str(text):
        if not UNSPACED_LETTER.match(piece):
            yield start, end
            continue
        word_start = start
        for position in range(start + 1, end):
            # no word begins with an accent, which is a token of its own in some vocabularies
            if position in token_starts and category(text[position])[0] != "M":
                yield word_start, position
                word_start = position
        yield word_start, end
