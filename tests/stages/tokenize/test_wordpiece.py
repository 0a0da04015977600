import hashlib
import subprocess
import sys

import pytest

from stages.tokenize.wordpiece import ALPHABET_LIMIT, SPECIAL_TOKENS, alphabet, train_wordpiece
from tests.conftest import ROOT
from tests.stages.tokenize.raw_splits import sentences
from tuneline.errors import DataError


def batches(*texts):
    return lambda: iter([texts])


def vocabulary(tokenizer):
    return sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)


def test_special_tokens_have_the_first_ids(wordpiece):
    assert tuple(vocabulary(wordpiece)[:5]) == SPECIAL_TOKENS
    assert wordpiece.pad_token_id == 0


def test_pairs_get_separators_and_token_types(wordpiece):
    encoded = wordpiece("parcel", "invoice")
    assert wordpiece.convert_ids_to_tokens(encoded["input_ids"]) == ["[CLS]", "parcel", "[SEP]", "invoice", "[SEP]"]
    assert encoded["token_type_ids"] == [0, 0, 0, 1, 1]


def test_normalization_lower_cases_and_drops_accents(wordpiece):
    assert wordpiece("PARCEL résumé")["input_ids"] == wordpiece("parcel resume")["input_ids"]
    assert wordpiece.decode(wordpiece("The parcel is missing")["input_ids"], skip_special_tokens=True) == "the parcel is missing"


def test_vocab_size_is_kept_if_the_alphabet_is_larger():
    chinese = "".join(chr(0x4E00 + index) for index in range(500))
    assert len(train_wordpiece(batches(chinese, "some words"), vocab_size=100)) <= 100
    assert len(train_wordpiece(batches(*sentences(300)), vocab_size=150)) == 150


def test_alphabet_has_the_most_frequent_characters():
    assert alphabet(batches("aaa bb c", "b"), limit=2) == ["a", "b"]
    assert alphabet(batches("ba", "dc"), limit=3) == ["a", "b", "c"]
    assert len(alphabet(batches("".join(map(chr, range(0x4E00, 0x4E00 + 3000)))), ALPHABET_LIMIT)) == ALPHABET_LIMIT


def test_character_outside_the_alphabet_is_unknown(wordpiece):
    assert wordpiece.convert_ids_to_tokens(wordpiece("parcel Ω")["input_ids"]) == ["[CLS]", "parcel", "[UNK]", "[SEP]"]


def test_training_on_empty_texts_is_an_error():
    with pytest.raises(DataError, match="no tokenizer can be trained"):
        train_wordpiece(batches("", "  "), vocab_size=100)


TRAIN = """
import hashlib
from stages.tokenize.wordpiece import train_wordpiece
from tests.stages.tokenize.raw_splits import sentences
print(hashlib.sha256(train_wordpiece(lambda: iter([sentences(400, seed=1)]), 400).backend_tokenizer.to_str().encode()).hexdigest())
"""


@pytest.mark.parametrize("threads", ["1", "4"])
def test_training_is_deterministic_across_processes_and_threads(wordpiece, threads, monkeypatch):
    """Each process seeds the trainer's hash tables differently, so without fixed piece numbers this test almost always fails."""
    monkeypatch.setenv("RAYON_NUM_THREADS", threads)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    there = subprocess.run([sys.executable, "-c", TRAIN], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    assert there == hashlib.sha256(wordpiece.backend_tokenizer.to_str().encode()).hexdigest()
