import copy
import hashlib
import json
import subprocess
import sys

import pytest
from transformers import AutoTokenizer, BertTokenizer

from stages.tokenize.tokenizer import (
    ALPHABET_LIMIT,
    SPECIAL_TOKENS,
    alphabet,
    check_length,
    train_wordpiece,
)
from tests.conftest import ROOT
from tests.stages.tokenize.raw_splits import sentences
from tuneline.model.tokenizer import load_tokenizer, save_tokenizer
from tuneline.runtime.errors import DataError, ParamsError

TRAIN = """
import hashlib
from stages.tokenize.tokenizer import train_wordpiece
from tests.stages.tokenize.raw_splits import sentences
tokenizer = train_wordpiece(lambda: iter([sentences(400, seed=1)]), 400)
print(hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest())
"""


def batches(*texts):
    return lambda: iter([texts])


def vocabulary(tokenizer):
    return sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)


def test_special_tokens_have_the_first_ids(wordpiece):
    assert tuple(vocabulary(wordpiece)[:5]) == SPECIAL_TOKENS
    assert wordpiece.pad_token_id == 0


def test_pairs_get_separators_and_token_types(wordpiece):
    encoded = wordpiece("parcel", "invoice")
    assert wordpiece.convert_ids_to_tokens(encoded["input_ids"]) == [
        "[CLS]",
        "parcel",
        "[SEP]",
        "invoice",
        "[SEP]",
    ]
    assert encoded["token_type_ids"] == [0, 0, 0, 1, 1]


def test_normalization_lower_cases_and_drops_accents(wordpiece):
    assert wordpiece("PARCEL résumé")["input_ids"] == wordpiece("parcel resume")["input_ids"]
    assert (
        wordpiece.decode(wordpiece("The parcel is missing")["input_ids"], skip_special_tokens=True)
        == "the parcel is missing"
    )


def test_vocab_size_is_kept_if_the_alphabet_is_larger():
    chinese = "".join(chr(0x4E00 + index) for index in range(500))
    assert len(train_wordpiece(batches(chinese, "some words"), vocab_size=100)) <= 100
    assert len(train_wordpiece(batches(*sentences(300)), vocab_size=150)) == 150


def test_alphabet_has_the_most_frequent_characters():
    assert alphabet(batches("aaa bb c", "b"), limit=2) == ["a", "b"]
    assert alphabet(batches("ba", "dc"), limit=3) == ["a", "b", "c"]
    assert (
        len(alphabet(batches("".join(map(chr, range(0x4E00, 0x4E00 + 3000)))), ALPHABET_LIMIT))
        == ALPHABET_LIMIT
    )


def test_character_outside_the_alphabet_is_unknown(wordpiece):
    assert wordpiece.convert_ids_to_tokens(wordpiece("parcel Ω")["input_ids"]) == [
        "[CLS]",
        "parcel",
        "[UNK]",
        "[SEP]",
    ]


def test_training_on_empty_texts_is_an_error():
    with pytest.raises(DataError, match="no tokenizer"):
        train_wordpiece(batches("", "  "), vocab_size=100)


@pytest.mark.parametrize("threads", [pytest.param("1", marks=pytest.mark.slow), "4"])
def test_training_is_deterministic_across_processes_and_threads(wordpiece, threads, monkeypatch):
    """Each process seeds the trainer's hash tables differently, so without fixed piece numbers this test
    almost always fails."""
    monkeypatch.setenv("RAYON_NUM_THREADS", threads)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    there = subprocess.run(
        [sys.executable, "-c", TRAIN], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    assert there == hashlib.sha256(wordpiece.backend_tokenizer.to_str().encode()).hexdigest()


def test_check_length_accepts_a_suitable_length():
    check_length(128, limit=128, special_tokens=3, texts=2)
    check_length(5, limit=None, special_tokens=3, texts=2)


def test_check_length_refuses_more_than_the_model_takes():
    with pytest.raises(ParamsError, match=r"max_length: 129 .*128"):
        check_length(129, limit=128, special_tokens=3, texts=2)


def test_check_length_refuses_less_than_one_token_of_each_text():
    with pytest.raises(ParamsError, match="is too short"):
        check_length(4, limit=None, special_tokens=3, texts=2)


def test_save_tokenizer_round_trip_gives_the_same_ids(tmp_path, wordpiece):
    save_tokenizer(copy.deepcopy(wordpiece), 32, tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again("The parcel", "is missing") == wordpiece("The parcel", "is missing")
    assert (again.model_max_length, again.pad_token_id, again.model_input_names) == (
        32,
        0,
        wordpiece.model_input_names,
    )


def test_save_tokenizer_drops_paths_and_settings_of_earlier_calls(tmp_path, wordpiece):
    source = tmp_path / "a place on this machine"
    bert = BertTokenizer(vocab=wordpiece.get_vocab(), model_max_length=512)
    bert.save_pretrained(source)
    bert(["a", "b"], padding="max_length", truncation=True, max_length=17)
    loaded = load_tokenizer(source, "a folder")
    loaded(["a", "b"], padding="max_length", truncation=True, max_length=17)
    save_tokenizer(loaded, 32, tmp_path / "saved")
    for path in (tmp_path / "saved").iterdir():
        assert str(tmp_path) not in path.read_text()
    rust = json.loads((tmp_path / "saved/tokenizer.json").read_text())
    assert (rust["truncation"], rust["padding"]) == (None, None)
    config = json.loads((tmp_path / "saved/tokenizer_config.json").read_text())
    assert not {"name_or_path", "is_local", "local_files_only", "max_length"} & set(config)
    assert config["model_max_length"] == 32


def test_save_tokenizer_keeps_the_model_inputs(tmp_path, wordpiece):
    plain = copy.deepcopy(wordpiece)
    plain.model_input_names = ["input_ids", "attention_mask"]
    save_tokenizer(plain, 32, tmp_path)
    assert set(AutoTokenizer.from_pretrained(tmp_path)("parcel", "invoice")) == {
        "input_ids",
        "attention_mask",
    }
