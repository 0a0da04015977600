import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer

from stages.tokenize.tokenizer import train_wordpiece
from tests.runaway import TEXT as RUNAWAY
from tests.runaway import make_runaway
from tests.stages.tokenize.raw_splits import WORDS, sentences
from tuneline.model import encoded_columns
from tuneline.model.encoded_columns import Encoder, EncodingCounts, encode_rows
from tuneline.model.encoding import EncodingError, encode_batch
from tuneline.tasks import Classification
from tuneline.tasks.schemas import tokenized_schema

LABELS = Classification(("no", "yes"))
TEXT = st.lists(
    st.sampled_from([*WORDS, "Ω", "", "x" * 120, "a b\u00a0c\n"]) | st.text(max_size=12), max_size=30
).map(" ".join)


@pytest.fixture(scope="module")
def wordpiece():
    """A WordPiece tokenizer trained on generated sentences. A test that changes it must copy it."""
    return train_wordpiece(lambda: iter([sentences(400, seed=1)]), vocab_size=400)


def batch(*texts):
    columns = dict(zip(("subject", "body"), texts, strict=False))
    return pa.record_batch({**columns, "labels": [0] * len(texts[0])})


def encoded(tokenizer, max_length, *texts):
    """Return the encoded rows and the counts."""
    encoder = Encoder(tokenizer, max_length, pairs=len(texts) == 2)
    names = ["subject", "body"][: len(texts)]
    batches = list(
        encode_rows(encoder, iter([batch(*texts)]), names, tokenized_schema(encoder.token_type_ids, LABELS))
    )
    return pa.Table.from_batches(batches).to_pylist(), encoder.counts


@settings(max_examples=60)
@given(
    rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5),
    max_length=st.integers(5, 40),
    pairs=st.booleans(),
)
def test_encoded_rows_equal_those_of_transformers(wordpiece, rows, max_length, pairs):
    texts = list(zip(*rows, strict=True))[: 1 + pairs]
    rows, _ = encoded(wordpiece, max_length, *map(list, texts))
    expected = wordpiece(*map(list, texts), truncation="longest_first", max_length=max_length)
    assert {name: [row[name] for row in rows] for name in expected} == dict(expected)


@settings(max_examples=60)
@given(rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5), max_length=st.integers(5, 40))
def test_token_counts_equal_those_of_the_rows(wordpiece, rows, max_length):
    encoded_rows, counts = encoded(wordpiece, max_length, *map(list, zip(*rows, strict=True)))
    whole = wordpiece(*map(list, zip(*rows, strict=True)))["input_ids"]
    text_tokens = [token for row in encoded_rows for token in row["input_ids"] if token not in (2, 3)]
    assert counts == EncodingCounts(
        rows=len(rows),
        tokens=sum(len(row["input_ids"]) for row in encoded_rows),
        special=3 * len(rows),
        unknown=text_tokens.count(wordpiece.unk_token_id),
        truncated=sum(len(ids) > max_length for ids in whole),
        longest=max(len(row["input_ids"]) for row in encoded_rows),
    )


def test_row_of_exactly_max_length_is_not_counted_as_truncated(wordpiece):
    _, counts = encoded(wordpiece, 5, ["parcel is missing", "parcel is missing invoice"])
    assert (counts.truncated, counts.longest) == (1, 5)


def test_longer_text_of_a_pair_is_truncated_first(wordpiece):
    rows, _ = encoded(wordpiece, 8, ["parcel " * 9], ["invoice is"])
    assert (
        wordpiece.convert_ids_to_tokens(rows[0]["input_ids"])
        == "[CLS] parcel parcel parcel [SEP] invoice is [SEP]".split()
    )


def test_special_token_in_a_text_is_text(wordpiece):
    """Else a reader takes it for the end of the text, which then means something else."""
    rows, _ = encoded(wordpiece, 40, ["parcel [SEP] invoice [CLS]"], ["[PAD] is"])
    ids = rows[0]["input_ids"]
    assert (
        ids.count(wordpiece.sep_token_id),
        ids.count(wordpiece.cls_token_id),
        ids.count(wordpiece.pad_token_id),
    ) == (2, 1, 0)
    assert wordpiece.decode(ids, skip_special_tokens=True).replace(" ", "").startswith("parcel")


def test_unknown_rate_ignores_special_tokens(wordpiece):
    _, counts = encoded(wordpiece, 16, ["parcel Ω", "is missing"])
    assert counts.metrics()["unknown_rate"] == pytest.approx(1 / 4)


def test_unknown_token_used_as_special_token_is_not_counted(wordpiece):
    """Some BPE tokenizers use the same token for the start of a text and for unknown tokens."""
    import copy

    odd = copy.deepcopy(wordpiece)
    odd.unk_token = odd.cls_token
    _, counts = encoded(odd, 16, ["parcel", "invoice"])
    assert counts.unknown == 0


def test_rows_are_not_padded_and_the_mask_is_all_ones(wordpiece):
    padding = wordpiece.backend_tokenizer
    padding.enable_padding(length=32)
    try:
        rows, _ = encoded(wordpiece, 16, ["parcel", "parcel is missing"])
    finally:
        padding.no_padding()
    assert [row["attention_mask"] for row in rows] == [[1] * 3, [1] * 5]


def test_tokenizer_without_token_types_gives_no_token_type_ids(wordpiece):
    import copy

    plain = copy.deepcopy(wordpiece)
    plain.model_input_names = ["input_ids", "attention_mask"]
    rows, _ = encoded(plain, 16, ["parcel"], ["invoice"])
    assert list(rows[0]) == ["input_ids", "attention_mask", "labels"]


@pytest.mark.parametrize("sizes", [[25], [1] * 25, [3, 0, 11, 2, 9]])
def test_row_groups_do_not_depend_on_input_batches(wordpiece, sizes, monkeypatch):
    monkeypatch.setattr(encoded_columns, "ENCODED_AT_A_TIME", 4)
    monkeypatch.setattr(encoded_columns, "ROW_GROUP", 8)
    texts = sentences(25)
    starts = np.cumsum([0, *sizes])
    rows = (batch(texts[start:stop]).cast(batch(texts).schema) for start, stop in itertools.pairwise(starts))
    encoder = Encoder(wordpiece, 16, pairs=False)
    batches = list(encode_rows(encoder, rows, ["subject"], tokenized_schema(True, LABELS)))
    assert [len(batch) for batch in batches] == [8, 8, 8, 1]
    together, _ = encoded(wordpiece, 16, texts)
    assert pa.Table.from_batches(batches).to_pylist() == together


def test_encoder_yields_no_batch_without_rows(wordpiece):
    encoder = Encoder(wordpiece, 16, pairs=False)
    assert list(encode_rows(encoder, iter([]), ["subject"], tokenized_schema(True, LABELS))) == []
    assert encoder.counts.metrics()["truncation_rate"] == 0.0


def test_error_while_reading_rows_is_raised(wordpiece):
    def rows():
        yield batch(sentences(5))
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        list(
            encode_rows(
                Encoder(wordpiece, 16, pairs=False), rows(), ["subject"], tokenized_schema(True, LABELS)
            )
        )


@pytest.fixture
def runaway(wordpiece, tmp_path):
    """The tokenizer of ``tests.runaway``."""
    wordpiece.save_pretrained(tmp_path)
    make_runaway(tmp_path / "tokenizer.json")
    return AutoTokenizer.from_pretrained(tmp_path)


def test_text_for_which_the_tokenizer_takes_too_many_steps_is_an_error_with_its_row_and_file(
    runaway, tmp_path
):
    encoder = Encoder(runaway, 16, pairs=True)
    assert len(encoder.encode([("parcel", "invoice")]).inputs) == 1
    with pytest.raises(EncodingError) as raised:
        encoder.encode([("parcel", "invoice"), ("parcel is", RUNAWAY), ("parcel", RUNAWAY)])
    assert raised.value.row == 1
    problem = (
        f"the tokenizer {tmp_path} cannot encode this text of 60 characters (Onig: Regex search error:"
        " retry-limit-in-match over)."
    )
    assert raised.value.problem == problem
    assert f"It begins with '{'x' * 40}'. Shorten it" in raised.value.hint
    assert str(raised.value.at("in.csv, row 7")).startswith(f"in.csv, row 7: {problem}\n  It begins")


def test_row_of_an_encoding_error_counts_from_the_first_row_of_all_chunks(runaway, monkeypatch):
    monkeypatch.setattr(encoded_columns, "ENCODED_AT_A_TIME", 4)
    monkeypatch.setattr(encoded_columns, "ROW_GROUP", 8)
    rows = iter([batch([*sentences(9), RUNAWAY, "parcel"])])
    with pytest.raises(EncodingError) as raised:
        list(
            encode_rows(Encoder(runaway, 16, pairs=False), rows, ["subject"], tokenized_schema(True, LABELS))
        )
    assert raised.value.row == 9


def test_vocabulary_without_an_unknown_token_is_an_error_with_the_row(tmp_path):
    words = Tokenizer(models.WordLevel({"parcel": 0, "is": 1}))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(EncodingError, match=r"Missing .*vocabulary") as raised:
        encode_batch(words, ["parcel is", "parcel missing"], "words")
    assert raised.value.row == 1


@pytest.mark.parametrize("texts", [["parcel", None], [("parcel",)]])
def test_texts_of_another_type_are_no_encoding_error(wordpiece, texts):
    with pytest.raises((TypeError, ValueError)):
        encode_batch(wordpiece.backend_tokenizer, texts, "wordpiece")


def test_encoder_does_not_change_the_tokenizer(wordpiece):
    before = wordpiece.backend_tokenizer.to_str()
    Encoder(wordpiece, 16, pairs=False)
    assert wordpiece.backend_tokenizer.to_str() == before


def test_token_counts_of_batches_can_be_added():
    total = EncodingCounts(1, 10, 2, 1, 1, 10) + EncodingCounts(3, 12, 6, 0, 0, 5)
    assert total == EncodingCounts(4, 22, 8, 1, 1, 10)
    assert total.metrics("train_") == {
        "train_rows": 4,
        "train_tokens": 22,
        "train_mean_tokens": 5.5,
        "train_max_tokens": 10,
        "train_truncation_rate": 0.25,
        "train_unknown_rate": pytest.approx(1 / 14),
    }
