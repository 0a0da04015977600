import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.exported_pipeline import published_pipeline
from tests.small_pipeline import WORDS
from tuneline.core.runtime.errors import StageError
from tuneline.model.tokens.encoded_columns import Encoder
from tuneline.serve.text_classifier import TextClassifier

WORDY = st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)
"""Texts of known words, long enough to be truncated."""
TEXTS = st.text(max_size=60) | WORDY


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with a classifier of (subject, body) into three queues; these tests only read it."""
    return published_pipeline(tmp_path_factory, "classification")


@pytest.fixture(scope="module")
def deployed(project):
    return TextClassifier.load(project / "models/onnx", threads=1)


@pytest.fixture(scope="module")
def trained_tokenizer(project):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(project / "data/tokenized/tokenizer")


def test_import_loads_neither_the_command_line_nor_torch():
    code = (
        "import sys; from tuneline.serve.text_classifier import TextClassifier;"
        " print(*[name for name in sys.modules if name.startswith(('tuneline.cli', 'torch', 'typer'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []


def test_load_takes_a_folder_with_a_precision_or_a_file(project):
    folder = project / "models/onnx"
    by_precision = TextClassifier.load(folder, "int8", threads=1)
    by_file = TextClassifier.load(folder / "model.int8.onnx", threads=1)
    assert by_precision.classifier.metadata == by_file.classifier.metadata
    assert by_precision.classifier.metadata["precision"] == "int8"
    with pytest.raises(StageError, match="has no model fp16"):
        TextClassifier.load(folder, "fp16")


@settings(max_examples=50)
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5))
def test_token_ids_equal_those_of_training(deployed, trained_tokenizer, pairs):
    """The stage tokenizes in another way than the deployed model; not a single id may differ."""
    rows = deployed.encode(pairs)
    firsts, seconds = map(list, zip(*pairs, strict=True))
    expected = trained_tokenizer(firsts, seconds, truncation="longest_first", max_length=deployed.max_length)
    for name in ("input_ids", "token_type_ids", "attention_mask"):
        assert [
            rows.values[name][start:stop].tolist()
            for start, stop in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)
        ] == expected[name]


def test_special_token_in_a_text_is_text_as_in_training(deployed, trained_tokenizer):
    """The rows of training and of prediction are the same, also where a text has the tokenizer's
    separator."""
    texts = [("parcel [SEP] invoice", "[CLS] the [PAD] order"), ("is </s> fine", "<s>")]
    encoder = Encoder(trained_tokenizer, deployed.max_length, pairs=True)
    trained = [list(ids) for ids in encoder.encode(texts).token_ids()]
    predicted = deployed.encode(texts)
    assert predicted.values["input_ids"].tolist() == [number for ids in trained for number in ids]
    assert all(ids.count(trained_tokenizer.sep_token_id) == 2 for ids in trained)
