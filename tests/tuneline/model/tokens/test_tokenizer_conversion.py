import json
from pathlib import Path

import pytest
from tokenizers import processors
from transformers.convert_slow_tokenizer import import_protobuf

from tests.tokenizer_families import BERT, CHARSMAP, ROBERTA, byte_bpe
from tuneline.core.runtime.errors import ParamsError
from tuneline.model.checkpoints.base_tokens import compare_tokens
from tuneline.model.tokens.tokenizer import load_tokenizer

LABEL = "model.checkpoint: someone/old"


def write_vocab(folder: Path, words: list[str], config: dict | None = None, model: str = "bert") -> Path:
    """Write an old checkpoint of BERT: ``vocab.txt``, and no ``tokenizer.json``."""
    (folder / "vocab.txt").write_text("\n".join([*BERT.values(), *words]) + "\n", encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"model_type": model}))
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def tokens(folder: Path, text: str) -> list[str]:
    return load_tokenizer(folder, LABEL).backend_tokenizer.encode(text).tokens[1:-1]


def test_cased_vocabulary_is_not_lower_cased_and_that_is_printed(tmp_path, capsys):
    folder = write_vocab(tmp_path, ["Hello", "hello", "rose"])
    assert tokens(folder, "Hello rose") == ["Hello", "rose"]
    printed = capsys.readouterr().out
    assert LABEL in printed
    assert "do_lower_case false (1 of 3 words have upper-case letters)" in printed
    assert "BertTokenizer" in printed


@pytest.mark.parametrize("model", ["distilbert", "electra"])
def test_vocabulary_of_every_relative_of_bert_says_its_case(tmp_path, model):
    assert tokens(write_vocab(tmp_path, ["Hello", "hello"], model=model), "Hello") == ["Hello"]


def test_stated_case_is_used(tmp_path, capsys):
    folder = write_vocab(tmp_path, ["Hello", "hello"], {"do_lower_case": True})
    assert tokens(folder, "Hello") == ["hello"]
    assert "do_lower_case" not in capsys.readouterr().out


def test_case_that_cannot_be_known_is_an_error(tmp_path):
    folder = write_vocab(tmp_path, ["NUM", *(f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(500))])
    with pytest.raises(ParamsError, match="1 of 501 words"):
        load_tokenizer(folder, LABEL)


def test_bytes_of_roberta_are_converted(tmp_path, capsys):
    own = byte_bpe(ROBERTA, False, processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False))
    own.model.save(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "roberta"}))
    compare_tokens(own, load_tokenizer(tmp_path, LABEL).backend_tokenizer, LABEL)
    assert "add_prefix_space false" in capsys.readouterr().out


def write_sentencepiece(file: Path, pieces: list[str]) -> None:
    """Write a SentencePiece model with a map of characters."""
    model = import_protobuf().ModelProto()
    model.trainer_spec.model_type = 1
    model.trainer_spec.unk_id = pieces.index("[UNK]")
    model.normalizer_spec.precompiled_charsmap = CHARSMAP
    for number, piece in enumerate(pieces):
        kind = {"[UNK]": 2}.get(piece, 3 if piece in BERT.values() else 1)
        model.pieces.add(piece=piece, score=-float(number), type=kind)
    file.write_bytes(model.SerializeToString())


def test_sentencepiece_is_converted_with_its_map_of_characters(tmp_path):
    """The class of transformers 5 replaces the map by NFC, and needs another library."""
    pieces = [*BERT.values(), "▁", "▁the", "▁full", "▁...", ".", *"fulhe"]
    write_sentencepiece(tmp_path / "spm.model", pieces)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "deberta-v2"}))
    assert tokens(tmp_path, "the\u00a0ｆｕｌｌ …") == ["▁the", "▁full", "▁..."]  # noqa: RUF001
    tokenizer = load_tokenizer(tmp_path, LABEL)
    assert tokenizer.convert_tokens_to_ids(["[PAD]", "▁full"]) == [0, pieces.index("▁full")]


def test_added_tokens_follow_the_vocabulary(tmp_path):
    pieces = [*BERT.values(), "▁", "▁the", *"the"]
    write_sentencepiece(tmp_path / "spm.model", pieces)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "deberta-v2"}))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"Tuneline": len(pieces)}))
    assert "Tuneline" in tokens(tmp_path, "the Tuneline")
    (tmp_path / "added_tokens.json").write_text(json.dumps({"Tuneline": 999}))
    with pytest.raises(ParamsError, match="'Tuneline' has id 999"):
        load_tokenizer(tmp_path, LABEL)
