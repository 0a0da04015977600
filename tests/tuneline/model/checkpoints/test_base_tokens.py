import json

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from tests.tokenizer_families import FAMILIES, word_piece
from tuneline.core.runtime.errors import ParamsError
from tuneline.model.checkpoints.base_tokens import TEXTS, check_tokens, compare_tokens
from tuneline.model.tokens.encoded_columns import Encoder
from tuneline.model.tokens.tokenizer import load_tokenizer, save_tokenizer

LABEL = "model.checkpoint: someone/model"
PAIRS = [(text, TEXTS[position] or "x") for position, text in enumerate(TEXTS, start=-1)]
"""Pairs whose second text is not empty: transformers takes those for single texts."""


def own_tokenizer(folder):
    """Return the tokenizer of a checkpoint as the library tokenizers reads it."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    return tokenizer


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_keeps_the_tokens_of_its_own_file(name, tmp_path):
    folder = FAMILIES[name].write(tmp_path / "checkpoint")
    tokenizer = load_tokenizer(folder, LABEL)
    check_tokens(tokenizer, folder, LABEL)
    own = own_tokenizer(folder)

    # what the stage tokenize writes
    for rows, pairs in ((list(TEXTS), False), (PAIRS, True)):
        encoded = Encoder(tokenizer, 512, pairs).encode(rows)
        expected = own.encode_batch(rows)
        assert list(encoded.token_ids()) == [row.ids for row in expected]
        assert list(encoded.type_ids()) == [row.type_ids for row in expected]

    # what Hugging Face's class reads from the folder of a trained model
    save_tokenizer(tokenizer, 512, tmp_path / "saved")
    (tmp_path / "saved/config.json").write_text(json.dumps(FAMILIES[name].model))
    saved = AutoTokenizer.from_pretrained(tmp_path / "saved")
    for first, second in PAIRS:
        assert saved(first)["input_ids"] == own.encode(first).ids
        encoded_pair = saved(first, second, return_token_type_ids=True)
        expected_pair = own.encode(first, second)
        assert encoded_pair["input_ids"] == expected_pair.ids
        assert encoded_pair["token_type_ids"] == expected_pair.type_ids
    assert saved.padding_side == "right", "as in training"


def test_other_tokens_are_an_error_with_both_lists():
    with pytest.raises(ParamsError) as error:
        compare_tokens(word_piece(lowercase=False), word_piece(lowercase=True), LABEL)
    message = str(error.value)
    assert LABEL in message
    assert "Hello ROSE" in message
    assert "['[CLS]', 'Hello', " in message
    assert "['[CLS]', 'hello', " in message


def test_another_template_is_an_error():
    other = word_piece(template_of=("[CLS] $A", "[CLS] $A [SEP] $B:1", ("[CLS]", "[SEP]")))
    with pytest.raises(ParamsError, match="types"):
        compare_tokens(word_piece(), other, LABEL)
