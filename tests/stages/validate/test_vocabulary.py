import json

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from stages.validate.vocabulary import Vocabulary
from tests.stages.validate.data import tokenizer_of
from tuneline.errors import StageError


@pytest.fixture
def folder(tmp_path):
    def save(tokenizer: Tokenizer, config: dict):
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        return tmp_path

    return save


def roberta_like() -> Tokenizer:
    """Special tokens at odd ids, two separators between texts, one type id."""
    tokenizer = Tokenizer(models.WordLevel({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "b": 5}, unk_token="<unk>"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tokenizer.enable_padding(length=32)
    tokenizer.enable_truncation(3)
    return tokenizer


def test_the_template_of_a_pair_is_read_from_the_tokenizer(folder):
    found = Vocabulary.read(folder(roberta_like(), {"unk_token": {"content": "<unk>"}, "model_input_names": ["input_ids"]}), texts=2)
    assert found.template == (0, 2, 2, 2)
    assert (found.first_id, found.last_id, found.largest_id, found.unknown_id) == (0, 2, 6, 3)
    assert found.special_ids == {0, 1, 2, 6}
    assert found.largest_type_id == 0
    assert not found.has_type_ids


def test_a_bert_like_tokenizer_numbers_its_texts(folder):
    config = {"unk_token": "[UNK]", "model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    found = Vocabulary.read(folder(tokenizer_of(["a", "b"]), config), texts=2)
    assert len(found.template) == 3
    assert found.largest_type_id == 1
    assert found.has_type_ids


def test_a_tokenizer_may_have_no_special_tokens_at_all(folder):
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1}))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    found = Vocabulary.read(folder(tokenizer, {}), texts=1)
    assert (found.template, found.first_id, found.last_id, found.unknown_id) == ((), None, None, None)


def test_a_missing_tokenizer_is_told_with_the_stage_that_makes_it(tmp_path):
    with pytest.raises(StageError, match="dvc repro tokenize"):
        Vocabulary.read(tmp_path, texts=1)
