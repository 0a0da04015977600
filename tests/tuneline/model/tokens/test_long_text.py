import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from tuneline.core.runtime.errors import DataError
from tuneline.model.tokens.long_text import WindowsRecord, cut_windows, truncated


@pytest.fixture(scope="module")
def numbers():
    """A tokenizer of numbers, whose ids are the numbers, with special tokens as BERT has them."""
    vocabulary = {str(number): number for number in range(1000)}
    tokenizer = Tokenizer(models.WordLevel({**vocabulary, "[CLS]": 1001, "[SEP]": 1002}))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1001), ("[SEP]", 1002)],
    )
    return tokenizer


def row(tokenizer, *lengths):
    """Encode texts of these numbers of tokens, which are numbers from 1 on."""
    texts = []
    start = 1
    for length in lengths:
        texts.append(" ".join(map(str, range(start, start + length))))
        start += length
    return tokenizer.encode(*texts)


def joined(encoding, cut):
    return [token for part in cut for token in encoding.ids[part]]


def windows_of(encoding, max_length, stride=2, max_windows=99, side="right"):
    record = WindowsRecord(stride=stride, max_windows=max_windows, answer="mean")
    cuts, is_truncated = cut_windows(encoding, max_length, record, side)
    return [joined(encoding, cut) for cut in cuts], is_truncated


@settings(max_examples=200)
@given(
    tokens=st.integers(12, 300),
    max_length=st.integers(7, 11),
    limits=st.tuples(st.integers(0, 4), st.integers(1, 30)),
    side=st.sampled_from(["left", "right"]),
)
def test_windows_have_every_token_of_the_text_that_they_can_hold(numbers, tokens, max_length, limits, side):
    stride, max_windows = limits
    windows, is_truncated = windows_of(row(numbers, tokens), max_length, stride, max_windows, side)
    room = max_length - 2
    capacity = max_windows * (room - stride) + stride
    assert is_truncated == (tokens > capacity)
    assert len(windows) <= max_windows

    # each is a whole input, and they overlap by the stride
    texts = [window[1:-1] for window in windows]
    assert all((window[0], window[-1]) == (1001, 1002) for window in windows)
    assert max(map(len, texts)) <= room
    together = texts[0] + [token for text in texts[1:] for token in text[stride:]]
    everything = list(range(1, tokens + 1))
    kept = min(tokens, capacity)
    assert together == (everything[-kept:] if side == "left" else everything[:kept])

    # as few as transformers makes, of about equal length
    if not is_truncated:
        assert len(windows) == 1 + -(-(tokens - room) // (room - stride))
    assert max(map(len, texts)) - min(map(len, texts)) <= 1


def test_longer_text_of_a_pair_is_divided_and_the_other_one_is_whole(numbers):
    windows, _ = windows_of(row(numbers, 9, 2), max_length=10)
    assert windows == [
        [1001, 1, 2, 3, 4, 1002, 10, 11, 1002],
        [1001, 3, 4, 5, 6, 1002, 10, 11, 1002],
        [1001, 5, 6, 7, 8, 9, 1002, 10, 11, 1002],
    ]
    windows, _ = windows_of(row(numbers, 2, 9), max_length=10)
    assert windows[-1] == [1001, 1, 2, 1002, 7, 8, 9, 10, 11, 1002]


@pytest.mark.parametrize(("shorter", "stride"), [(11, 0)])
def test_text_that_leaves_too_little_room_is_refused_with_the_way_out(numbers, shorter, stride):
    with pytest.raises(DataError, match=rf"leaves {16 - 3 - shorter} of the 16 tokens") as refused:
        windows_of(row(numbers, shorter, 30), max_length=16, stride=stride)
    assert "tokenize.long_text: truncate" in refused.value.hint


@pytest.mark.parametrize("side", ["left", "right"])
@given(
    lengths=st.tuples(st.integers(0, 40), st.integers(0, 40)).filter(lambda pair: sum(pair) > 20),
    max_length=st.integers(5, 20),
)
def test_truncated_row_is_the_one_of_the_library(numbers, side, lengths, max_length):
    library = Tokenizer.from_str(numbers.to_str())
    library.enable_truncation(max_length, strategy="longest_first", direction=side)
    whole = row(numbers, *lengths)
    assert joined(whole, truncated(whole, max_length, side)) == row(library, *lengths).ids
