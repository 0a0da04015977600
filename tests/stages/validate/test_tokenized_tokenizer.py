# ruff: noqa: RUF001 (odd characters are what these tests are about)
import json

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from stages.validate.tokenized import (
    Decoder,
    Vocabulary,
    comparable,
    evenly_spaced,
    load_plain_tokenizer,
    pieces_match,
)
from tests.params import params
from tests.stages.validate.data import good_data, tokenizer_of
from tuneline.runtime.errors import StageError


@pytest.mark.parametrize(
    ("pieces", "text", "same"),
    [
        (["abc"], "abc", True),
        (["ab"], "abc", False),
        ([""], "", True),
        ([""], "a", False),
        (["a", "c"], "abbbc", True),
        (["", "c"], "abc", True),
        (["a", ""], "abb", True),
        (["a", "a"], "a", False),
        (["ab", "ab"], "ababab", True),
        (["x", "c"], "abc", False),
    ],
)
def test_pieces_match_a_text_with_any_text_between_them(pieces, text, same):
    assert pieces_match(pieces, text) is same


def test_pieces_of_a_truncated_text_match_its_start_or_end():
    assert pieces_match(["ab"], "abc", to_end=False)
    assert pieces_match(["bc"], "abc", from_start=False)
    assert not pieces_match(["bc"], "abc", to_end=False)
    assert not pieces_match(["ab"], "abc", from_start=False)


@pytest.mark.parametrize(
    ("total", "number", "rows"), [(0, 5, []), (1, 5, [0]), (3, 5, [0, 1, 2]), (100, 3, [0, 49, 99])]
)
def test_evenly_spaced_runs_from_the_first_row_to_the_last(total, number, rows):
    assert evenly_spaced(total, number).tolist() == rows


def test_comparable_texts_ignore_what_normalizers_change():
    assert comparable("Ça  va\u200b ＯＫ\x07?") == comparable("ca va ok?")


@pytest.fixture(scope="module")
def decoding(tmp_path_factory):
    data = good_data()
    folders = data.write(tmp_path_factory.mktemp("decoding") / "data")
    tokenizer = load_plain_tokenizer(folders.tokenizer)
    tokenize = params(tokenize={"max_length": 16}).tokenize
    return tokenizer, Decoder(tokenizer, Vocabulary.read(folders.tokenizer, texts=2), tokenize)


@pytest.mark.parametrize(
    "texts",
    [
        ("bakin lomu", "deri"),
        ("Bákin, LOMU do not!", "deri"),  # the decoder of the library would write "don't"
        ("bakin Ω lomu", "ΩΩ"),  # unknown tokens
        ("", "deri"),
        ("bakin lomu soba nape risso", "tulo muna pedde kiba"),  # truncated
    ],
)
def test_ids_match_their_texts(decoding, texts):
    tokenizer, decoder = decoding
    tokenizer.enable_truncation(16)
    ids = tokenizer.encode(*texts).ids
    tokenizer.no_truncation()
    assert decoder.matches(ids, texts)


@pytest.mark.parametrize(
    "texts",
    [("bakin lomu", "muna"), ("lomu bakin", "deri"), ("bakin", "deri"), ("bakin lomu deri deri", "deri")],
)
def test_ids_do_not_match_other_texts(decoding, texts):
    tokenizer, decoder = decoding
    assert not decoder.matches(tokenizer.encode("bakin lomu", "deri").ids, texts)


@pytest.fixture
def folder(tmp_path):
    def save(tokenizer: Tokenizer, config: dict):
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        return tmp_path

    return save


def roberta_like() -> Tokenizer:
    """Return a tokenizer with two separators between texts and one type id."""
    tokenizer = Tokenizer(
        models.WordLevel({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "b": 5}, unk_token="<unk>")  # noqa: S106
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tokenizer.enable_padding(length=32)
    tokenizer.enable_truncation(3)
    return tokenizer


def test_vocabulary_has_the_template_of_a_pair(folder):
    vocabulary = Vocabulary.read(
        folder(roberta_like(), {"unk_token": {"content": "<unk>"}, "model_input_names": ["input_ids"]}),
        texts=2,
    )
    assert vocabulary.template == (0, 2, 2, 2)
    assert (vocabulary.first_id, vocabulary.last_id, vocabulary.largest_id, vocabulary.unknown_id) == (
        0,
        2,
        6,
        3,
    )
    assert vocabulary.special_ids == {0, 1, 2, 6}
    assert vocabulary.largest_type_id == 0
    assert not vocabulary.has_type_ids


def test_vocabulary_of_a_bert_like_tokenizer_has_type_ids(folder):
    config = {"unk_token": "[UNK]", "model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    vocabulary = Vocabulary.read(folder(tokenizer_of(["a", "b"]), config), texts=2)
    assert len(vocabulary.template) == 3
    assert vocabulary.largest_type_id == 1
    assert vocabulary.has_type_ids


def test_vocabulary_without_special_tokens_has_no_template(folder):
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1}))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    vocabulary = Vocabulary.read(folder(tokenizer, {}), texts=1)
    assert (vocabulary.template, vocabulary.first_id, vocabulary.last_id, vocabulary.unknown_id) == (
        (),
        None,
        None,
        None,
    )


def test_missing_tokenizer_names_the_stage_that_writes_it(tmp_path):
    with pytest.raises(StageError, match="dvc repro tokenize"):
        Vocabulary.read(tmp_path, texts=1)
