import numpy as np
import pytest
from tokenizers import Tokenizer

from tests.tuneline.operations.adoption.tiny_checkpoint import write_checkpoint
from tuneline.checks.text_lengths import TextLengths, measure_texts, word_pieces

MAX_LENGTH = 20
STRIDE = 5


@pytest.fixture(scope="module")
def tokenizer_file(tmp_path_factory):
    """A tokenizer whose tokens are single letters, with the special tokens of BERT."""
    return write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny") / "tokenizer.json"


def texts_of_words(counts):
    return [" ".join("a" * count) for count in counts]


def measured(tokenizer_file, columns):
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    contents = [measure_texts(tokenizer, column, "it") for column in columns]
    return TextLengths.of_texts(contents, 1 + len(columns))


def windows_of_library(tokenizer_file, columns):
    """Return the lengths of the windows of each document, as the tokenizers library cuts them."""
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    windows = []
    for texts in zip(*columns, strict=True):
        longer = "only_first" if len(texts[0]) >= len(texts[-1]) else "only_second"
        tokenizer.enable_truncation(MAX_LENGTH, stride=STRIDE, strategy=longer)
        encoding = tokenizer.encode(*texts)
        windows.append([len(window) for window in (encoding, *encoding.overflowing)])
    return windows


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("max_windows", [1, 3, 100])
def test_windows_are_those_of_the_tokenizers_library(tokenizer_file, columns, max_windows):
    generator = np.random.default_rng(0)
    texts = [texts_of_words(generator.integers(1, 200, 50))]
    if columns == 2:
        texts.append(texts_of_words(generator.integers(1, 8, 50)))
    lengths = measured(tokenizer_file, texts)
    expected = windows_of_library(tokenizer_file, texts)

    assert lengths.windows(MAX_LENGTH, STRIDE).tolist() == list(map(len, expected))
    kept = [window for windows in expected for window in windows[:max_windows]]
    assert lengths.windowed(MAX_LENGTH, STRIDE, max_windows).processed == sum(kept)


def test_documents_that_are_cut_lose_the_rest(tokenizer_file):
    lengths = measured(tokenizer_file, [texts_of_words([8, 18, 38])])
    assert lengths.tokens.tolist() == [10, 20, 40]
    reading = lengths.cut(MAX_LENGTH)
    assert (reading.incomplete, reading.lost, reading.processed) == (1 / 3, pytest.approx(20 / 70), 50)


@pytest.mark.parametrize(
    ("text", "tokens", "pieces"),
    [("the parcel, it never came!", 7, 1.0), ("包裹在哪里", 5, 1.0), ("पार्सल नहीं", 6, 3.0), ("...", 1, 0.0)],
)
def test_pieces_of_words_are_counted_without_marks(text, tokens, pieces):
    assert word_pieces([text], tokens) == pieces
