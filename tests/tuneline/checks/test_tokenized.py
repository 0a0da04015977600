"""The ids of a tokenizer, and the notes on long texts."""

import json

from tokenizers import Tokenizer, models, pre_tokenizers, processors

from tests.tuneline.checks.data import params_for
from tuneline.checks.text_lengths import TextLengths
from tuneline.checks.tokenized import Vocabulary, truncation_notes
from tuneline.core.params import Params

import numpy as np  # isort: skip


def test_vocabulary_has_the_template_of_a_pair(tmp_path):
    """Of a tokenizer with two separators between texts and one type id."""
    words = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "b": 5}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tokenizer.enable_truncation(3)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    config = {"unk_token": {"content": "<unk>"}, "model_input_names": ["input_ids"]}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    vocabulary = Vocabulary.read(tmp_path, texts=2)
    assert vocabulary.template == (0, 2, 2, 2)
    ids = (vocabulary.first_id, vocabulary.last_id, vocabulary.largest_id, vocabulary.unknown_id)
    assert ids == (0, 2, 6, 3)
    assert vocabulary.special_ids == {0, 1, 2, 6}
    assert (vocabulary.largest_type_id, vocabulary.has_type_ids) == (0, False)


LENGTHS = TextLengths(np.array([20] * 66 + [100] * 33 + [200]), np.full(100, 2))


def notes(long_text: str) -> list[str]:
    values = params_for(("text",)).model_dump(by_alias=True)
    values["tokenize"].update(max_length=40, long_text=long_text)
    values["tokenize"]["windows"]["stride"] = 8
    return truncation_notes(LENGTHS, Params.model_validate(values).tokenize)


def test_what_is_lost_and_how_long_rows_are_is_said():
    (cut,) = notes("truncate")
    assert cut.startswith("34 % of the rows are longer than 40 tokens; the model does not read 4")
    assert cut.endswith("99 % of the rows have at most 100 tokens.")
    assert "does not read 0 %" in notes("windows")[0]
