"""Words of texts, and what is left of a text without one of them."""

from dataclasses import replace

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from tests.exported_pipeline import published_pipeline
from tuneline.model.tokens.encoding import InputEncoder
from tuneline.model.tokens.long_text import LongText
from tuneline.serve.occlusion import read_words, without
from tuneline.serve.text_classifier import TextClassifier


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """A classifier of one text whose tokenizer knows ideographs as letters of words."""
    folder = published_pipeline(tmp_path_factory, "classification", columns=("body",)) / "models/onnx"
    model = TextClassifier.load(folder, threads=1)
    vocabulary = [("<unk>", 0.0), ("▁", -2.0), ("包裹", -3.0), ("我的", -3.0), ("พัสดุ", -3.0), ("ไม่", -3.0)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, 0, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return replace(model, encoder=InputEncoder(tokenizer, "tokenizer.json", 200, LongText(), "right"))


def words(model, *texts):
    return [texts[text][start:end] for text, start, end in read_words(model, texts)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don't pay 1,000.50!", ["I", "don't", "pay", "1,000.50", "!"]),
        ("(my e-mail: a@b.com)", ["(", "my", "e-mail", ":", "a@b.com", ")"]),
        ("late📦again 😍😍 ❤️ 👩‍💻", ["late", "📦", "again", "😍😍", "❤️", "👩‍💻"]),
        ("cafe\u0301 हिन्दी नहीं", ["cafe\u0301", "हिन्दी", "नहीं"]),
        ("می\u200cروم خانه", ["می\u200cروم", "خانه"]),
        ("我的包裹。", ["我的", "包裹", "。"]),
        ("ไม่พัสดุ ไม่", ["ไม่", "พัสดุ", "ไม่"]),
        (" \t\n\u3000", []),
    ],
)
def test_words_are_what_people_would_call_so(deployed, text, expected):
    assert words(deployed, text) == expected


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("the late parcel", "late", "the parcel"),
        ("is late, again", "late", "is , again"),
        ("late📦again", "📦", "late again"),
        ("a café—bar", "—", "a café bar"),
        ("late!", "!", "late"),
        ("我的包裹", "的", "我包裹"),
        ("late", "late", ""),
    ],
)
def test_word_leaves_neither_a_gap_nor_a_new_word(text, word, expected):
    start = text.index(word)
    assert without((text,), (0, start, start + len(word))) == (expected,)
