import copy
import json

from transformers import AutoTokenizer, BertTokenizer

from stages.tokenize.checkpoint import load_tokenizer
from stages.tokenize.folder import save_tokenizer


def test_the_folder_gives_the_same_ids_back(tmp_path, wordpiece):
    save_tokenizer(copy.deepcopy(wordpiece), 32, tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again("The parcel", "is missing") == wordpiece("The parcel", "is missing")
    assert (again.model_max_length, again.pad_token_id, again.model_input_names) == (32, 0, wordpiece.model_input_names)


def test_it_says_nothing_of_the_machine_and_of_old_calls(tmp_path, wordpiece):
    source = tmp_path / "a place on this machine"
    bert = BertTokenizer(vocab=wordpiece.get_vocab(), model_max_length=512)
    bert.save_pretrained(source)
    bert(["a", "b"], padding="max_length", truncation=True, max_length=17)
    loaded = load_tokenizer(str(source), None)
    loaded(["a", "b"], padding="max_length", truncation=True, max_length=17)
    save_tokenizer(loaded, 32, tmp_path / "saved")
    for path in (tmp_path / "saved").iterdir():
        assert str(tmp_path) not in path.read_text()
    rust = json.loads((tmp_path / "saved/tokenizer.json").read_text())
    assert (rust["truncation"], rust["padding"]) == (None, None)
    config = json.loads((tmp_path / "saved/tokenizer_config.json").read_text())
    assert not {"name_or_path", "is_local", "local_files_only", "max_length"} & set(config)
    assert config["model_max_length"] == 32


def test_inputs_that_the_model_lacks_stay_left_out(tmp_path, wordpiece):
    plain = copy.deepcopy(wordpiece)
    plain.model_input_names = ["input_ids", "attention_mask"]
    save_tokenizer(plain, 32, tmp_path)
    assert set(AutoTokenizer.from_pretrained(tmp_path)("parcel", "invoice")) == {"input_ids", "attention_mask"}
