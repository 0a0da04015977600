# ruff: noqa: RUF001 (texts in other languages, and odd characters)
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from tests.tokenizer_families import FAMILIES
from tuneline.model.safe_cuts import SafeCuts

CHINESE = "我们昨天收到了包裹，但是发票不对。请问什么时候可以退款？"
BASE64 = "aGVsbG8gd29ybGQ/c29tZSArIHRleHQ=Zm9v+YmFyL2Jheg"
PIECES = (
    "hello", "the rose", "Hello ROSE", "full", "café", "re\u0301sume\u0301", "İstanbul", "ﬁne", "１２３",
    "x²", "x" * 150, "don't", "rock'n'roll", "e.g.", "a_b", "3.5%", "100", "``quoted''", "ﾞ", "\u0600",
    "\u0d4e", "क्षि", "שלום", "مرحبا", "Привет", "안녕", "ไทยำ", "🙂", "\U0001f469\u200d\U0001f467",
    "\u3164", "\u200b", "\u00a0", " ", "  ", "\n", "\t", "…", "—", "…a", "[SEP]", "</s>", "<mask>", "▁",
    "Ġ", CHINESE, BASE64,
)  # fmt: skip
"""Letters, marks and spaces that normalization changes, removes or joins, and texts without any space."""
TEXT = st.lists(
    st.sampled_from(PIECES) | st.sampled_from(PIECES).map(" {}".format) | st.text(max_size=6), max_size=40
).map("".join)


def ids(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def own(name):
    """Return the tokenizer of a family as an encoder configures it."""
    tokenizer = FAMILIES[name].tokenizer()
    tokenizer.encode_special_tokens = True
    return tokenizer


def cuts_of(tokenizer, text):
    """Return all safe cuts of a text."""
    safe = SafeCuts.of(tokenizer)
    cuts = []
    cut = safe.after(text, 0)
    while cut is not None:
        cuts.append(cut)
        cut = safe.after(text, cut + 1)
    return cuts


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=60)
@given(text=TEXT)
def test_text_has_the_tokens_of_its_two_parts_at_every_safe_cut(name, text):
    tokenizer = own(name)
    whole = ids(tokenizer, text)
    for cut in cuts_of(tokenizer, text):
        assert ids(tokenizer, text[:cut]) + ids(tokenizer, text[cut:]) == whole, (text[:cut], text[cut:])

    safe = SafeCuts.of(tokenizer)
    for size in range(0, len(text), 7):
        head = safe.head(text, size)
        if head is not None:
            tokens = ids(tokenizer, head)
            assert tokens == whole[: len(tokens)]
            assert len(head) >= size
        tail = safe.tail(text, size)
        if tail is not None:
            tokens = ids(tokenizer, tail)
            assert tokens == whole[len(whole) - len(tokens) :]
            assert len(tail) <= size


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_safe_cuts_between_words(name):
    assert cuts_of(own(name), "hello the full rose") == [5, 9, 14]


def words(**parts):
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "hello": 1, "rose": 2}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    return tokenizer


def test_tokenizer_with_an_unknown_step_has_no_safe_cuts():
    assert SafeCuts.of(words()) is not None
    unknown = [
        {"pre_tokenizer": None},
        {"pre_tokenizer": pre_tokenizers.FixedLength(5)},
        {"pre_tokenizer": pre_tokenizers.Metaspace(split=False)},
        {"pre_tokenizer": pre_tokenizers.ByteLevel(use_regex=False)},
        {"pre_tokenizer": pre_tokenizers.Split(Regex(r"\S+ \S+"), "isolated")},
        {
            "pre_tokenizer": pre_tokenizers.Sequence(
                [pre_tokenizers.FixedLength(5), pre_tokenizers.WhitespaceSplit()]
            )
        },
        {"normalizer": normalizers.Replace(Regex("o r"), "x")},
        {"normalizer": normalizers.Replace("o r", "x")},
        {"normalizer": normalizers.Sequence([normalizers.NFC(), normalizers.Replace(" ", "")])},
        {"model": models.BPE(dropout=0.1)},
    ]
    for parts in unknown:
        assert SafeCuts.of(words(**parts)) is None, parts


def test_added_token_is_never_cut():
    tokenizer = words()
    tokenizer.add_tokens(["new york"])
    assert SafeCuts.of(tokenizer) is None
    tokenizer = words()
    tokenizer.add_tokens([AddedToken("rose", rstrip=True), AddedToken("x" * 65)])
    assert SafeCuts.of(tokenizer) is None
