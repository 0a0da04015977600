from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenizer_families import FAMILIES
from tests.tuneline.model.test_safe_cuts import BASE64, CHINESE, PIECES
from tuneline.model import readable_text
from tuneline.model.encoding import EncodingError, InputEncoder
from tuneline.model.long_text import LongText, WindowsRecord

PLAIN = ("hello ", "the rose ", "full ", "Hello, ", "don't ", "ﬁne ", "a+b ")
TEXT = st.lists(st.sampled_from(PIECES) | st.sampled_from(PLAIN), max_size=60).map("".join)
LONG_TEXTS = {
    "truncate": LongText(),
    "head_tail": LongText(long_text="head_tail", head_share=0.3),
    "windows": LongText(long_text="windows", windows=WindowsRecord(stride=2, max_windows=2, answer="mean")),
}


@contextmanager
def small():
    """Take texts for big that have some more characters than the model reads tokens."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readable_text, "CHARACTERS_PER_TOKEN", 1)
        patch.setattr(readable_text, "GROWTH", 2)
        patch.setattr(readable_text, "COUNTED_AT_A_TIME", 20)
        yield


def encoder(tokenizer, long_text="truncate", side="right", max_length=9):
    return InputEncoder(tokenizer, "tokenizer.json", max_length, LONG_TEXTS[long_text], side)


def inputs_of(made, rows):
    inputs = made.encode(rows)
    ids = [list(tokens) for tokens in inputs.token_ids()]
    types = [list(tokens) for tokens in inputs.type_ids()]
    return ids, types, inputs.windows.tolist(), inputs.truncated


def result(made, rows):
    """Return the inputs of rows, or the error."""
    try:
        return inputs_of(made, rows)
    except EncodingError as error:
        return error.row, error.problem


BIG = {
    "words": "hello the rose " * 20_000,
    "chinese": CHINESE * 10_000,
    "base64": BASE64 * 6_000,
}


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("BERT, cased", "chinese"), ("BERT, uncased", "base64"), ("RoBERTa", "words"), ("XLM-R", "words"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("long_text", LONG_TEXTS)
def test_of_a_big_text_little_is_tokenized(family, text, long_text):
    made = encoder(FAMILIES[family].tokenizer(), long_text, max_length=128)
    if (family, long_text) == ("RoBERTa", "head_tail") and text != "words":
        return  # its end is read in another way: RoBERTa writes a space before the beginning of a text
    (readable,) = made.readable((BIG[text],))
    assert len(readable) < 10_000
    _, other = made.readable(("hello", BIG[text]))
    assert len(other) < 10_000


def test_longer_text_of_two_big_ones_stays_the_longer_one():
    made = encoder(FAMILIES["BERT, uncased"].tokenizer(), max_length=128)
    short, long = "hello, the rose " * 10_000, "hello the rose " * 10_001 + "hello , , " * 10_000
    for pair in ((short, long), (long, short)):
        row = made.readable(pair)
        assert sum(map(len, row)) < 30_000
        lengths = [len(made.tokenizer.encode(text)) for text in row]
        assert (lengths[0] > lengths[1]) == (pair[0] is long)


@pytest.mark.parametrize("long_text", LONG_TEXTS)
@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=15)
@given(texts=st.tuples(TEXT, TEXT), side=st.sampled_from(["left", "right"]), max_length=st.integers(7, 14))
def test_inputs_are_those_of_whole_texts(name, long_text, texts, side, max_length):
    whole = encoder(FAMILIES[name].tokenizer(), long_text, side, max_length)
    whole.readable = lambda row: row
    with small():
        cut = encoder(FAMILIES[name].tokenizer(), long_text, side, max_length)
        assert result(cut, list(texts)) == result(whole, list(texts))
        assert result(cut, [texts]) == result(whole, [texts])


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=15)
@given(texts=st.tuples(TEXT, TEXT), side=st.sampled_from(["left", "right"]), max_length=st.integers(7, 14))
def test_truncated_rows_are_those_of_the_library(name, texts, side, max_length):
    library = FAMILIES[name].tokenizer()
    library.encode_special_tokens = True
    library.enable_truncation(max_length, strategy="longest_first", direction=side)
    for rows in (list(texts), [texts]):
        expected = library.encode_batch(rows)
        with small():
            ids, types, _, _ = inputs_of(
                encoder(FAMILIES[name].tokenizer(), "truncate", side, max_length), rows
            )
        assert ids == [row.ids for row in expected]
        assert types == [row.type_ids for row in expected]
