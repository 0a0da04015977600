import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.small_pipeline import WORDS
from tuneline.cli.predict.model import ServedModel, softmax

WORDY = st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)
"""Of known words, many of them: long enough to be cut."""
TEXTS = st.text(max_size=60) | WORDY


@pytest.fixture(scope="module")
def served(classification):
    return ServedModel.load(classification / "models/onnx", None, 1)


@pytest.fixture(scope="module")
def trained_tokenizer(classification):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(classification / "data/tokenized/tokenizer")


@settings(max_examples=50, deadline=None)
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5))
def test_texts_become_the_ids_that_the_model_was_trained_on(served, trained_tokenizer, pairs):
    """The stage tokenizes by another way than the server; not a single id may differ."""
    rows = served.encode(pairs)
    firsts, seconds = map(list, zip(*pairs, strict=True))
    wanted = trained_tokenizer(firsts, seconds, truncation="longest_first", max_length=served.max_length)
    for name in ("input_ids", "token_type_ids", "attention_mask"):
        assert [rows.values[name][start:stop].tolist() for start, stop in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)] == wanted[
            name
        ]


@settings(max_examples=20, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.text("ab ", max_size=40), st.text("ab ", max_size=40)), min_size=1, max_size=12),
    batch_size=st.integers(1, 5),
)
def test_sorting_by_length_does_not_change_the_order_or_the_numbers(served, pairs, batch_size):
    alone = np.concatenate([served.predict([pair], 1) for pair in pairs])
    np.testing.assert_allclose(served.predict(pairs, batch_size), alone, atol=2e-6)


def test_probabilities_of_large_logits_are_numbers():
    np.testing.assert_allclose(softmax(np.array([[1000.0, 0.0], [-1000.0, -1000.0]])), [[1, 0], [0.5, 0.5]])
