"""The tokens of a checkpoint, from ``base`` to the exported model."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

import stages.base
import stages.export
import stages.tokenize
from tests.params import write_params
from tests.small_pipeline import FAMILIES as MODELS
from tests.small_pipeline import tiny_model
from tests.stages.tokenize.raw_splits import write_raw
from tests.tokenizer_families import FAMILIES
from tuneline.core.stage.provenance import StageProvenance, provenance_file
from tuneline.core.stage.records import write_record
from tuneline.model.checkpoints.base_tokens import TEXTS
from tuneline.serve.text_classifier import TextClassifier

ROWS = [(text, TEXTS[position] or "x") for position, text in enumerate(TEXTS, start=-1)]


def write_checkpoint(family: str, folder: Path) -> None:
    """Write a checkpoint with the tokenizer of a family, and a model of its type."""
    written = FAMILIES[family].write(folder)
    tokenizer = Tokenizer.from_file(str(written / "tokenizer.json"))
    model_type = FAMILIES[family].model["model_type"]
    assert model_type in MODELS
    tiny_model(model_type, 2, tokenizer.get_vocab_size(), ("no", "yes")).save_pretrained(written)


@pytest.mark.parametrize(
    "family",
    [
        "RoBERTa",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("BERT, cased", "DeBERTa v3", "ALBERT, cased")
        ),
    ],
)
def test_every_stage_reads_the_tokens_of_the_checkpoint(family, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "models/source/mine"
    write_checkpoint(family, source)
    write_params(
        tmp_path,
        model={"checkpoint": "models/source/mine", "config": {}},
        tokenize={"max_length": 60},
        export={"precisions": ["fp32"]},
    )
    for split in ("train", "validation", "test"):
        write_raw(tmp_path / f"data/raw/{split}.parquet", list(zip(*ROWS, strict=True)))

    # tokens of the checkpoint, truncated as in training
    own = Tokenizer.from_file(str(source / "tokenizer.json"))
    own.encode_special_tokens = True
    own.enable_truncation(60)
    expected = [row.ids for row in own.encode_batch(ROWS)]

    # base and tokenize
    stages.base.main()
    stages.tokenize.main()
    assert pq.read_table("data/tokenized/train.parquet")["input_ids"].to_pylist() == expected

    # a model as train publishes it, read by Hugging Face's class
    classifier = tmp_path / "models/classifier"
    model = tiny_model(FAMILIES[family].model["model_type"], 2, own.get_vocab_size(), ("no", "yes"))
    model.save_pretrained(classifier)
    for file in (tmp_path / "data/tokenized/tokenizer").iterdir():
        shutil.copyfile(file, classifier / file.name)
    hugging_face = AutoTokenizer.from_pretrained(classifier)
    assert (
        hugging_face(*map(list, zip(*ROWS, strict=True)), truncation=True, max_length=60)["input_ids"]
        == expected
    )

    # export and predict
    for stage in stages.export.EARLIER_STAGES:
        write_record(provenance_file(stage), StageProvenance(parameters={}, code="c" * 64, libraries={}))
    (tmp_path / "data/raw/source.json").write_text(
        json.dumps({"source": "sample", "splits": {}, "label_names": ["no", "yes"]})
    )
    stages.export.main()
    deployed = TextClassifier.load(tmp_path / "models/candidates", threads=1)
    encoded = deployed.encode(ROWS)
    assert encoded.values["input_ids"].tolist() == [number for row in expected for number in row]
    assert deployed.outputs(deployed.encode(ROWS), 8).shape == (len(ROWS), 2)
