import json

import pytest

from tests.tokenizer_families import FAMILIES
from tuneline.model.tokens.tokenizer_settings import TokenizerSettings, find_class


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
