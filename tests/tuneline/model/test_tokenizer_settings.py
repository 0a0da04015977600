import json

import pytest
import transformers

from tests.tokenizer_families import BERT, FAMILIES, special
from tuneline.model.tokenizer_settings import TokenizerSettings, find_class


def settings(folder, config=None, model=None, tokens=None):
    """Return the settings of a folder with these files."""
    for name, content in (
        ("tokenizer_config.json", config), ("config.json", model), ("special_tokens_map.json", tokens)
    ):  # fmt: skip
        if content is not None:
            (folder / name).write_text(json.dumps(content))
    return TokenizerSettings.read(folder)


def test_special_tokens_are_texts_or_objects_in_either_file(tmp_path):
    read = settings(
        tmp_path,
        {"pad_token": {"content": "[PAD]", "lstrip": False}, "mask_token": None},
        tokens={"unk_token": "[UNK]", "cls_token": {"content": "[CLS]"}, "mask_token": "[MASK]"},
    )
    assert read.special_tokens == {
        "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "mask_token": None
    }  # fmt: skip


def test_special_tokens_that_are_not_stated_are_those_of_the_class(tmp_path):
    tokens = settings(tmp_path, {"mask_token": None}).tokens_of(transformers.DistilBertTokenizer)
    assert tokens == {**special(BERT), "mask_token": None}


@pytest.mark.parametrize(
    ("config", "model", "name"),
    [
        ({"tokenizer_class": "BertTokenizerFast"}, {"model_type": "roberta"}, "BertTokenizer"),
        ({}, {"model_type": "roberta", "tokenizer_class": "BertTokenizer"}, "BertTokenizer"),
        (None, {"model_type": "distilbert"}, "DistilBertTokenizer"),
        (None, {"model_type": "longformer"}, "RobertaTokenizer"),
        (None, None, None),
    ],
)
def test_class_is_stated_or_that_of_the_model(tmp_path, config, model, name):
    assert settings(tmp_path, config, model).class_name == name


@pytest.mark.parametrize(
    ("family", "has_types"),
    [
        ("BERT, cased", True), ("PreTrainedTokenizerFast", True), ("ALBERT", True), ("RemBERT", True),
        ("Funnel", True), ("DistilBERT", False), ("MPNet", False), ("RoBERTa", False), ("ModernBERT", False),
        ("DeBERTa v3", False), ("XLM-R", False),
    ],
)  # fmt: skip
def test_token_types_are_inputs_of_the_models_that_have_them(tmp_path, family, has_types):
    FAMILIES[family].write(tmp_path)
    read = TokenizerSettings.read(tmp_path)
    assert ("token_type_ids" in read.input_names(find_class(read.class_name))) == has_types


def test_borrowed_class_of_bert_adds_no_token_types(tmp_path):
    read = settings(tmp_path, {"tokenizer_class": "BertTokenizer"}, {"model_type": "distilbert"})
    assert read.input_names(transformers.BertTokenizer) == ["input_ids", "attention_mask"]


@pytest.mark.parametrize(("limit", "expected"), [(512, 512), (1e30, None), (None, None)])
def test_limit_of_transformers_for_unlimited_is_none(tmp_path, limit, expected):
    assert settings(tmp_path, {"model_max_length": limit}).max_length == expected


def test_names_of_other_things_in_transformers_are_no_classes():
    assert find_class("BertModel") is None
    assert find_class("utils") is None
    assert find_class(None) is None
