import hashlib
import subprocess
import sys

import pytest

from stages.tokenize.wordpiece import ALPHABET_LIMIT, SPECIAL_TOKENS, alphabet, train_wordpiece
from tests.conftest import ROOT
from tests.stages.tokenize.made import sentences
from tuneline.errors import DataError


def batches(*texts):
    return lambda: iter([texts])


def vocabulary(tokenizer):
    return sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)


def test_special_tokens_come_first_and_in_order(wordpiece):
    assert tuple(vocabulary(wordpiece)[:5]) == SPECIAL_TOKENS
    assert wordpiece.pad_token_id == 0


def test_a_pair_gets_separators_and_segments(wordpiece):
    encoded = wordpiece("parcel", "invoice")
    assert wordpiece.convert_ids_to_tokens(encoded["input_ids"]) == ["[CLS]", "parcel", "[SEP]", "invoice", "[SEP]"]
    assert encoded["token_type_ids"] == [0, 0, 0, 1, 1]


def test_text_is_lower_cased_and_accents_dropped_as_bert_does(wordpiece):
    assert wordpiece("PARCEL résumé")["input_ids"] == wordpiece("parcel resume")["input_ids"]
    assert wordpiece.decode(wordpiece("The parcel is missing")["input_ids"], skip_special_tokens=True) == "the parcel is missing"


def test_vocab_size_is_kept_even_where_the_alphabet_is_larger():
    chinese = "".join(chr(0x4E00 + index) for index in range(500))
    assert len(train_wordpiece(batches(chinese, "some words"), vocab_size=100)) <= 100
    assert len(train_wordpiece(batches(*sentences(300)), vocab_size=150)) == 150


def test_the_most_frequent_characters_make_the_alphabet():
    assert alphabet(batches("aaa bb c", "b"), limit=2) == ["a", "b"]
    assert alphabet(batches("ba", "dc"), limit=3) == ["a", "b", "c"]
    assert len(alphabet(batches("".join(map(chr, range(0x4E00, 0x4E00 + 3000)))), ALPHABET_LIMIT)) == ALPHABET_LIMIT


def test_a_character_outside_the_alphabet_is_unknown(wordpiece):
    assert wordpiece.convert_ids_to_tokens(wordpiece("parcel Ω")["input_ids"]) == ["[CLS]", "parcel", "[UNK]", "[SEP]"]


def test_no_text_is_no_tokenizer():
    with pytest.raises(DataError, match="nothing to train"):
        train_wordpiece(batches("", "  "), vocab_size=100)


TRAIN = """
import hashlib
from stages.tokenize.wordpiece import train_wordpiece
from tests.stages.tokenize.made import sentences
print(hashlib.sha256(train_wordpiece(lambda: iter([sentences(400, seed=1)]), 400).backend_tokenizer.to_str().encode()).hexdigest())
"""


@pytest.mark.parametrize("threads", ["1", "4"])
def test_another_process_learns_the_same_bytes(wordpiece, threads, monkeypatch):
    """The trainer's hash tables are seeded anew in each process: without pinned pieces this fails nearly always."""
    monkeypatch.setenv("RAYON_NUM_THREADS", threads)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    there = subprocess.run([sys.executable, "-c", TRAIN], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    assert there == hashlib.sha256(wordpiece.backend_tokenizer.to_str().encode()).hexdigest()
