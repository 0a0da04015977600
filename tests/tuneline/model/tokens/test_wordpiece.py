import hashlib
import json
import subprocess
import sys

import pytest
from transformers import BertTokenizer

from tests.conftest import ROOT
from tests.stages.tokenize.raw_splits import sentences
from tuneline.core.runtime.errors import DataError
from tuneline.model.tokens.tokenizer import load_tokenizer, save_tokenizer
from tuneline.model.tokens.wordpiece import (
    train_wordpiece,
)

TRAIN = """
import hashlib
from tuneline.model.tokens.wordpiece import train_wordpiece
from tests.stages.tokenize.raw_splits import sentences
tokenizer = train_wordpiece(lambda: iter([sentences(400, seed=1)]), 400)
print(hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest())
"""


def batches(*texts):
    return lambda: iter([texts])


def test_vocab_size_is_kept_if_the_alphabet_is_larger():
    chinese = "".join(chr(0x4E00 + index) for index in range(500))
    assert len(train_wordpiece(batches(chinese, "some words"), vocab_size=100)) <= 100
    assert len(train_wordpiece(batches(*sentences(300)), vocab_size=150)) == 150


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
