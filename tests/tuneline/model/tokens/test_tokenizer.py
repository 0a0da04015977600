import json

import pytest
from transformers import BertTokenizer, ByT5Tokenizer, RobertaTokenizer

from tests.stages.tokenize.raw_splits import sentences
from tuneline.core.runtime.errors import StageError
from tuneline.model.tokens.tokenizer import load_tokenizer
from tuneline.model.tokens.wordpiece import train_wordpiece

LABEL = "model.checkpoint: someone/bert"


@pytest.fixture(scope="session")
def wordpiece():
    """A WordPiece tokenizer trained on generated sentences. A test that changes it must copy it."""
    return train_wordpiece(lambda: iter([sentences(400, seed=1)]), vocab_size=400)


@pytest.fixture
def bert(tmp_path, wordpiece):
    """Folder of a BERT checkpoint whose tokenizer takes 64 tokens."""
    BertTokenizer(vocab=wordpiece.get_vocab(), model_max_length=64).save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


@pytest.fixture
def roberta(tmp_path):
    """Folder of a RoBERTa checkpoint: byte-level BPE, no token types, no maximal length."""
    vocab = {
        token: index
        for index, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", "<mask>", "a", "b", "ab", "Ġ"])
    }
    RobertaTokenizer(vocab=vocab, merges=[("a", "b")]).save_pretrained(tmp_path / "roberta")
    return tmp_path / "roberta"


def test_load_tokenizer_keeps_the_model_inputs_of_the_architecture(bert, roberta):
    assert "token_type_ids" in load_tokenizer(bert, LABEL).model_input_names
    assert "token_type_ids" not in load_tokenizer(roberta, LABEL).model_input_names


def test_load_tokenizer_refuses_a_slow_tokenizer(tmp_path):
    ByT5Tokenizer().save_pretrained(tmp_path / "slow")
    with pytest.raises(StageError, match="only a slow tokenizer"):
        load_tokenizer(tmp_path / "slow", LABEL)


def test_load_tokenizer_never_runs_code_of_the_checkpoint(tmp_path, bert):
    trap = tmp_path / "ran"
    (bert / "evil.py").write_text(f"open({str(trap)!r}, 'w')\nclass Evil: pass\n")
    config = json.loads((bert / "tokenizer_config.json").read_text())
    config |= {"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}}
    (bert / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(StageError, match=r"model\.checkpoint: someone/bert"):
        load_tokenizer(bert, LABEL)
    assert not trap.exists()


@pytest.mark.parametrize("broken", ['{"version": "1.0"}'])
def test_load_tokenizer_refuses_a_broken_file(bert, broken):
    (bert / "tokenizer.json").write_text(broken)
    with pytest.raises(StageError, match=r"model\.checkpoint: someone/bert"):
        load_tokenizer(bert, LABEL)
