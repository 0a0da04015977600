# ruff: noqa: RUF001 (odd characters are what these tests are about)
import pytest

from stages.validate.decoding import Decoder, compact, matches
from stages.validate.vocabulary import Vocabulary, load_tokenizer
from tests.stages.validate.data import good_data


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
def test_pieces_make_up_a_text_with_anything_between_them(pieces, text, same):
    assert matches(pieces, text) is same


def test_a_text_that_was_cut_need_only_begin_or_end_with_its_pieces():
    assert matches(["ab"], "abc", to_end=False)
    assert matches(["bc"], "abc", from_start=False)
    assert not matches(["bc"], "abc", to_end=False)
    assert not matches(["ab"], "abc", from_start=False)


def test_what_normalisers_change_does_not_count():
    assert compact("Ça  va\u200b ＯＫ\x07?") == compact("ca va ok?")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    data = good_data()
    places = data.write(tmp_path_factory.mktemp("decoding") / "data")
    tokenizer = load_tokenizer(places.tokenizer)
    return tokenizer, Decoder(tokenizer, Vocabulary.read(places.tokenizer, texts=2), max_length=16)


@pytest.mark.parametrize(
    "texts",
    [
        ("bakin lomu", "deri"),
        ("Bákin, LOMU do not!", "deri"),  # the decoder of the library would write "don't"
        ("bakin Ω lomu", "ΩΩ"),  # unknown tokens
        ("", "deri"),
        ("bakin lomu soba nape risso", "tulo muna pedde kiba"),  # cut
    ],
)
def test_ids_give_their_texts_back(made, texts):
    tokenizer, decoder = made
    tokenizer.enable_truncation(16)
    ids = tokenizer.encode(*texts).ids
    tokenizer.no_truncation()
    assert decoder.gives_back(ids, texts)


@pytest.mark.parametrize("texts", [("bakin lomu", "muna"), ("lomu bakin", "deri"), ("bakin", "deri"), ("bakin lomu deri deri", "deri")])
def test_ids_do_not_give_other_texts_back(made, texts):
    tokenizer, decoder = made
    assert not decoder.gives_back(tokenizer.encode("bakin lomu", "deri").ids, texts)
