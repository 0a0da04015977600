import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models

from tuneline.checks.text_lengths import TextLengths
from tuneline.core.runtime.errors import StageError
from tuneline.operations.adoption.checkpoints import Lengths, open_checkpoint


def test_facts_of_a_folder_are_read_without_loading_weights(checkpoint):
    opened = open_checkpoint(checkpoint, None)
    assert (opened.width, opened.layers, opened.parameters) == (16, 1, 1600)
    assert (
        opened.description
        == f"{checkpoint} (bert, 1 layers of 16, 0.0 million parameters, no licence in its model card)"
    )


def test_lengths_count_special_tokens_and_both_texts_of_a_pair(checkpoint):
    opened = open_checkpoint(checkpoint, None)
    one = ["a b", "a", ""]
    single = opened.measure([one])
    pair = opened.measure([one, ["c d e", None, "  "]])
    assert single.rows.tokens.tolist() == [4, 3]
    assert pair.rows.tokens.tolist() == [8, 4]
    assert pair.limit == 64


@pytest.mark.parametrize(
    ("tokens", "limit", "expected"),
    [
        ([5] * 100, 512, 512),
        ([30] * 99 + [400], 8192, 512),
        ([700] * 99 + [8000], 8192, 704),
        ([30] * 98 + [9000] * 2, 8192, 8192),
        ([33] * 100, None, 512),
        ([600] * 100, 509, 509),
    ],
)
def test_max_length_is_the_limit_of_the_model_and_above_512_tokens_what_the_rows_need(
    tokens, limit, expected
):
    lengths = Lengths(TextLengths.of_texts([np.array(tokens) - 2], 2), limit)
    assert lengths.max_length == expected


@pytest.mark.parametrize(("text", "is_known"), [("a, b! b?", True), ("abab; baab", False)])
def test_tokenizer_that_divides_most_words_is_said_to_be_for_other_texts(checkpoint, text, is_known):
    file = Path(checkpoint) / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file))
    vocabulary = tokenizer.get_vocab()
    for token in ("##a", "##b", ",", "!", "?", ";"):
        vocabulary[token] = len(vocabulary)
    tokenizer.model = models.WordPiece(vocabulary, unk_token="[UNK]")  # noqa: S106
    tokenizer.save(str(file))
    warnings = open_checkpoint(checkpoint, None).measure([[text]]).warnings
    assert (warnings == []) == is_known
    assert all("--checkpoint distilbert/distilbert-base-multilingual-cased" in line for line in warnings)


def changed(folder, **changes):
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(values | changes))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda folder: (folder / "tokenizer.json").unlink(),
            "--checkpoint: models/source/tiny has no tokenizer",
        ),
        (
            lambda folder: changed(folder, model_type="vit"),
            "--checkpoint: models/source/tiny is of type 'vit'",
        ),
        (
            lambda folder: changed(folder, model_type="own", auto_map={"AutoModel": "own.Own"}),
            "needs Python code from its repository",
        ),
    ],
)
def test_checkpoint_that_cannot_be_fine_tuned_is_refused(checkpoint, change, message):
    change(Path(checkpoint))
    with pytest.raises(StageError, match=message):
        open_checkpoint(checkpoint, None)


@pytest.mark.parametrize(
    ("name", "revision", "message"),
    [
        ("models/source/none", None, "--checkpoint: models/source/none is not a folder"),
        ("../elsewhere", None, "--checkpoint: '../elsewhere' is neither a name on the hub nor a folder"),
    ],
)
def test_name_that_is_not_one_is_refused(checkpoint, name, revision, message):
    with pytest.raises(StageError, match=message):
        open_checkpoint(name, revision)
