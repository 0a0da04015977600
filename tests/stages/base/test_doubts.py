import json
from pathlib import Path

import pytest

from stages.base.doubts import tokenizer_doubts
from tests.tokenizer_families import BERT, Family, roberta, special, word_piece
from tuneline.checkpoints.pretrained import Pretrained
from tuneline.model.tokenizer import load_tokenizer


def doubts(folder: Path, embeddings: int | None = None, **config) -> list[str]:
    """Return the doubts about a cased BERT's tokenizer in a folder, whose model has some embeddings."""
    model = {"model_type": "bert"}
    if embeddings is not None:
        model["vocab_size"] = embeddings
    family = Family(lambda: word_piece(lowercase=False), {**special(BERT), **config}, model)
    tokenizer = load_tokenizer(family.write(folder), "someone/bert")
    checkpoint = Pretrained(folder.as_posix(), None, {path.name: 1 for path in folder.iterdir()})
    return list(tokenizer_doubts(tokenizer, folder, checkpoint))


@pytest.fixture
def tokens() -> list[str]:
    """The tokens of that tokenizer, in the order of their ids."""
    vocabulary = word_piece(lowercase=False).get_vocab()
    return sorted(vocabulary, key=vocabulary.get)


def test_vocabulary_of_another_model_beside_the_tokenizer_is_doubtful(tmp_path, tokens):
    (tmp_path / "vocab.txt").write_text("\n".join(f"word{number}" for number in range(30_522)))
    (message,) = doubts(tmp_path)
    assert f"{len(tokens):,}" in message
    assert "30,522" in message
    assert "vocab.txt" in message


def test_same_vocabulary_beside_the_tokenizer_is_not_doubtful(tmp_path, tokens):
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n")
    (tmp_path / "vocab.json").write_text(json.dumps(dict(zip(tokens, range(len(tokens)), strict=True))))
    assert not doubts(tmp_path)


def test_same_tokens_with_other_ids_are_doubtful(tmp_path, tokens):
    (tmp_path / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(reversed(tokens))}))
    (message,) = doubts(tmp_path)
    assert "another id" in message


def test_far_fewer_tokens_than_embeddings_are_doubtful(tmp_path, tokens):
    (message,) = doubts(tmp_path, embeddings=30_522)
    assert f"{len(tokens):,}" in message
    assert "30,522" in message


@pytest.mark.parametrize("spare", [0, 6, 64, 128])
def test_embeddings_for_round_numbers_are_not_doubtful(tmp_path, tokens, spare):
    assert not doubts(tmp_path, embeddings=len(tokens) + spare)


@pytest.mark.parametrize(
    ("key", "stated"), [("do_lower_case", True), ("tokenize_chinese_chars", False), ("strip_accents", True)]
)
def test_setting_that_contradicts_the_tokenizer_is_doubtful(tmp_path, key, stated):
    messages = doubts(tmp_path, **{key: stated})
    if key == "strip_accents":  # tokenizer.json leaves it open: as the case
        assert not messages
    else:
        assert key in messages[0]
        assert "tokenizer.json" in messages[0]


def test_stated_prefix_that_the_tokenizer_does_not_write_is_doubtful(tmp_path):
    config = {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": False}
    tokenizer = load_tokenizer(Family(lambda: roberta(True), config).write(tmp_path), "someone/roberta")
    (message,) = tokenizer_doubts(tokenizer, tmp_path, None)
    assert "add_prefix_space false" in message
