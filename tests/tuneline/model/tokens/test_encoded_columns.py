import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from tests.runaway import TEXT as RUNAWAY
from tests.runaway import make_runaway
from tests.stages.tokenize.raw_splits import WORDS, sentences
from tuneline.model.tasks import Classification
from tuneline.model.tasks.columns import tokenized_schema
from tuneline.model.tokens.encoded_columns import Encoder, encode_rows
from tuneline.model.tokens.encoding import EncodingError
from tuneline.model.tokens.wordpiece import train_wordpiece

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


@pytest.fixture
def runaway(wordpiece, tmp_path):
    """The tokenizer of ``tests.runaway``."""
    wordpiece.save_pretrained(tmp_path)
    make_runaway(tmp_path / "tokenizer.json")
    return AutoTokenizer.from_pretrained(tmp_path)


def test_row_of_an_encoding_error_counts_from_the_first_row_of_all_chunks(runaway):
    rows = iter([batch(sentences(4)), batch(sentences(5)), batch([RUNAWAY, "parcel"])])
    with pytest.raises(EncodingError) as raised:
        list(
            encode_rows(Encoder(runaway, 16, pairs=False), rows, ["subject"], tokenized_schema(True, LABELS))
        )
    assert raised.value.row == 9
