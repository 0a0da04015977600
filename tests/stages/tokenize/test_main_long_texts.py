"""The stage on texts that are longer than ``tokenize.max_length``."""

import json

import pyarrow as pa
import pytest
from transformers import AutoTokenizer

from stages import tokenize
from tests.params import change_params, write_params
from tests.stages.tokenize.raw_splits import sentences, write_raw
from tuneline.core.paths import SPLITS
from tuneline.core.runtime.errors import DataError
from tuneline.core.stage.provenance import BaseSource
from tuneline.core.stage.records import write_record
from tuneline.core.stage.tables import SplitReader, shard_file

MAX_LENGTH = 16
ROWS = {"train": (12, 8), "validation": (6,), "test": (6,)}
"""Rows of the files of each split."""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of pairs: short subjects and bodies of up to several times ``MAX_LENGTH``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    write_params(
        tmp_path,
        tokenize={
            "vocab_size": 300,
            "max_length": MAX_LENGTH,
            "windows": {"stride": 3, "max_windows": 20, "answer": "max"},
        },
        model={"config": {"model_type": "bert", "max_position_embeddings": 32}},
    )
    for seed, split in enumerate(SPLITS):
        for number, count in enumerate(ROWS[split]):
            texts = sentences(4 * count, seed=10 * seed + number)
            bodies = []
            for row in range(count):
                text_count = 1 + row % 4  # the first of them often fit into the model
                bodies.append(" ".join(texts[4 * row : 4 * row + text_count]))
            path = shard_file(tmp_path / "data/raw", split, number, len(ROWS[split]))
            write_raw(path, [["parcel is"] * count, bodies])
    write_record(tmp_path / "models/base/source.json", BaseSource(checkpoint=None, tokenizer=None))
    return tmp_path


def run(project, long_text, **changes):
    change_params(project, {"tokenize.long_text": long_text, **changes})
    tokenize.main()
    train = SplitReader.open(project / "data/tokenized", "train", "tokenize")
    return train, json.loads((project / "metrics/tokenize.json").read_text())


def whole_ids(project):
    """Return the ids of the bodies of train without special tokens, and a tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(project / "data/tokenized/tokenizer")
    raw = SplitReader.open(project / "data/raw", "train", "download").read()
    return tokenizer(raw["body"].to_pylist(), add_special_tokens=False)["input_ids"], tokenizer


def test_row_in_windows_is_one_document_with_all_of_its_text(project):
    train, metrics = run(project, "windows")
    assert train.schema.names == ["input_ids", "attention_mask", "token_type_ids", "window_lengths", "labels"]
    assert train.schema.field("window_lengths").type == pa.list_(pa.int32())
    rows = train.read().to_pylist()
    bodies, tokenizer = whole_ids(project)
    assert len(rows) == len(bodies) == 20
    subject = tokenizer("parcel is", add_special_tokens=False)["input_ids"]
    for row, body in zip(rows, bodies, strict=True):
        text = []
        start = 0
        for number, length in enumerate(row["window_lengths"]):
            ids = row["input_ids"][start : start + length]
            types = row["token_type_ids"][start : start + length]
            start += length
            assert length <= MAX_LENGTH
            first = [tokenizer.cls_token_id, *subject, tokenizer.sep_token_id]
            assert ids[: len(first)] == first
            assert ids[-1] == tokenizer.sep_token_id
            assert types == [0] * len(first) + [1] * (length - len(first))
            part = ids[len(first) : -1]
            assert number == 0 or part[:3] == text[-3:]
            text += part[3:] if number else part
        assert text == body
        assert row["attention_mask"] == [1] * start

    assert metrics["truncation_rate"] == 0
    assert metrics["mean_windows"] > 1.5
    record = json.loads((project / "data/tokenized/tokenizer/long_text.json").read_text())
    windows = {"stride": 3, "max_windows": 20, "answer": "max"}
    assert record == {"long_text": "windows", "windows": windows}


def test_document_has_no_more_windows_than_the_parameter(project):
    train, metrics = run(project, "windows", **{"tokenize.windows.max_windows": 2})
    lengths = train.read()["window_lengths"].to_pylist()
    assert max(map(len, lengths)) == 2
    assert 0 < metrics["truncation_rate"] < 1
    bodies, _ = whole_ids(project)
    room = MAX_LENGTH - 3 - 2  # special tokens, and the two tokens of the subject
    truncated = sum(len(body) > 2 * room - 3 for body in bodies)
    assert 0 < truncated < 20


def test_pair_of_two_long_texts_is_refused_with_file_and_row(project):
    bodies = sentences(6)
    bodies[4] = " ".join(["parcel"] * 40)
    write_raw(
        project / "data/raw/test.parquet", [["parcel " * (20 if row == 4 else 2) for row in range(6)], bodies]
    )
    with pytest.raises(
        DataError, match=r"data/raw/test\.parquet, row 4: the shorter of the two texts"
    ) as refused:
        run(project, "windows")
    assert "tokenize.long_text: truncate" in refused.value.hint
