import copy
import json

import pytest
from transformers import AutoTokenizer, BertTokenizer, ByT5Tokenizer, RobertaTokenizer

from stages.tokenize.checkpoint import length_limit, load_tokenizer
from tuneline.errors import StageError


@pytest.fixture
def bert(tmp_path, wordpiece):
    """A folder as a BERT checkpoint has it."""
    BertTokenizer(vocab=wordpiece.get_vocab(), model_max_length=64).save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


@pytest.fixture
def roberta(tmp_path):
    """Byte-level pieces, no segments, nothing said about length."""
    vocab = {token: index for index, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", "<mask>", "a", "b", "ab", "Ġ"])}
    RobertaTokenizer(vocab=vocab, merges=[("a", "b")]).save_pretrained(tmp_path / "roberta")
    return tmp_path / "roberta"


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_folder_gives_what_the_auto_class_gives(family, request):
    folder = str(request.getfixturevalue(family))
    ours, auto = load_tokenizer(folder, None), AutoTokenizer.from_pretrained(folder)
    assert ours.backend_tokenizer.to_str() == auto.backend_tokenizer.to_str()
    assert (type(ours), ours.model_input_names) == (type(auto), auto.model_input_names)


def test_each_family_has_its_own_inputs(bert, roberta):
    assert "token_type_ids" in load_tokenizer(str(bert), None).model_input_names
    assert "token_type_ids" not in load_tokenizer(str(roberta), None).model_input_names


def test_a_class_that_is_not_known_goes_through_the_auto_class(tmp_path, wordpiece):
    wordpiece.save_pretrained(tmp_path / "plain")
    assert json.loads((tmp_path / "plain/tokenizer_config.json").read_text())["tokenizer_class"] == "TokenizersBackend"
    assert load_tokenizer(str(tmp_path / "plain"), None)("parcel")["input_ids"] == wordpiece("parcel")["input_ids"]


def test_the_length_is_the_tokenizers_then_the_models(bert, roberta):
    assert length_limit(load_tokenizer(str(bert), None), str(bert), None) == 64
    tokenizer = load_tokenizer(str(roberta), None)
    assert length_limit(tokenizer, str(roberta), None) is None
    (roberta / "config.json").write_text(json.dumps({"model_type": "roberta", "max_position_embeddings": 34, "pad_token_id": 1}))
    assert length_limit(tokenizer, str(roberta), None) == 32


def test_a_slow_tokenizer_is_refused(tmp_path):
    ByT5Tokenizer().save_pretrained(tmp_path / "slow")
    with pytest.raises(StageError, match="only a slow tokenizer"):
        load_tokenizer(str(tmp_path / "slow"), None)


def test_a_tokenizer_that_cannot_pad_is_refused(tmp_path, wordpiece):
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    wordpiece.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(StageError, match="no padding token"):
        load_tokenizer(str(tmp_path), None)


def test_code_beside_a_tokenizer_is_never_run(tmp_path, bert):
    trap = tmp_path / "ran"
    (bert / "evil.py").write_text(f"open({str(trap)!r}, 'w')\nclass Evil: pass\n")
    config = json.loads((bert / "tokenizer_config.json").read_text())
    config |= {"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}}
    (bert / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(StageError, match=r"tokenize\.tokenizer.*cannot be loaded"):
        load_tokenizer(str(bert), None)
    assert not trap.exists()


@pytest.mark.parametrize("name", ["nobody/nothing-of-this-name", "no-such-folder/deeper/still", "../models/missing", ""])
def test_a_name_that_leads_nowhere_is_named(name):
    with pytest.raises(StageError) as caught:
        load_tokenizer(name, None)
    assert repr(name) in str(caught.value)
    assert "tokenize.tokenizer" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"version": "1.0"}', '{"version": "1.0", "model": {"type": "Unheard"}}'])
def test_a_broken_tokenizer_file_is_a_clear_error(bert, broken):
    (bert / "tokenizer.json").write_text(broken)
    with pytest.raises(StageError, match=r"tokenize\.tokenizer.*cannot be loaded"):
        load_tokenizer(str(bert), None)


def test_an_empty_folder_is_a_clear_error(tmp_path):
    with pytest.raises(StageError, match=r"tokenizer\.json"):
        load_tokenizer(str(tmp_path), None)


def test_copies_are_independent(wordpiece):
    """Other tests change copies of the session's tokenizer."""
    other = copy.deepcopy(wordpiece)
    other.model_input_names = ["input_ids"]
    assert wordpiece.model_input_names != ["input_ids"]
