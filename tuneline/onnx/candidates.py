"""The folder of candidates: exported models with their record, the tokenizer, and what other servers read."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from tuneline.core.runtime.files import write_json
from tuneline.core.stage.entry import require
from tuneline.core.stage.records import file_hash, write_record
from tuneline.model.tokens.tokenizer_settings import (
    FAST_TOKENIZER_FILES,
    LONG_TEXT_JSON,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
)
from tuneline.onnx.graph import input_names, save_model
from tuneline.onnx.records import ExportRecord
from tuneline.onnx.usage import EXPORT_RECORD, ModelRecord, TokenizerRecord

FILES = {"fp32": "model.onnx", "int8": "model.int8.onnx"}
LENGTH_FILE = "sentence_bert_config.json"
"""File by which text-embeddings-inference knows how many tokens a model reads."""
POOLED_KEY = "pooled_head"
"""Key of ``config.json`` that a classifier of pooled vectors has.

It is also in tuneline/model/linear/pooled_classifier.py, which imports torch.
"""


def head_kind(config: Mapping[str, Any]) -> str | None:
    """Return what the record of a model says of its head, see ``ExportRecord.head``."""
    if POOLED_KEY not in config:
        return None
    return "frozen" if config[POOLED_KEY]["frozen"] else "mean"


def tokenizer_record(folder: Path) -> TokenizerRecord:
    """Return the record of the tokenizer in a folder."""
    config: dict[str, Any] = json.loads((folder / TOKENIZER_CONFIG).read_text(encoding="utf-8"))
    sha256 = file_hash(folder / TOKENIZER_JSON)
    return TokenizerRecord(
        file=TOKENIZER_JSON, sha256=sha256, truncation_side=config.get("truncation_side", "right")
    )


def write_models(
    exported: Mapping[str, onnx.ModelProto], record: ExportRecord, classifier: Path, folder: Path
) -> dict[str, float]:
    """Write the models with the record in their metadata, ``export.json``, and the tokenizer.

    Return the size of each model in MiB.
    """
    # tokenizer, and what other servers read
    for name in FAST_TOKENIZER_FILES:
        shutil.copyfile(require(classifier / name, "train"), folder / name)
    write_configuration(classifier, folder, record.max_length)
    if record.long_text is not None:
        shutil.copyfile(classifier / LONG_TEXT_JSON, folder / LONG_TEXT_JSON)

    # models: one with large weights has a second file
    models = {}
    sizes = {}
    for precision, graph in exported.items():
        embed(graph, record, precision=precision)
        files = save_model(graph, folder / FILES[precision])
        size = sum(file.stat().st_size for file in files)
        models[precision] = ModelRecord(
            file=files[0].name,
            bytes=size,
            sha256={file.name: file_hash(file) for file in files},
        )
        sizes[f"{precision}_mb"] = round(size / 2**20, 2)

    # record: all models have the inputs of the fp32 graph
    inputs = input_names(exported["fp32"])
    write_record(folder / EXPORT_RECORD, record.model_copy(update={"inputs": inputs, "models": models}))
    return sizes


def write_configuration(classifier: Path, folder: Path, max_length: int) -> None:
    """Write the files by which other servers know what the models are: classifiers of so many tokens.

    The folder of a classifier of pooled vectors says that it is an encoder, but its ONNX models have the
    head.
    """
    config = json.loads((classifier / "config.json").read_text(encoding="utf-8"))
    if POOLED_KEY in config:
        names = []
        for name in config.get("architectures") or []:
            names.append(f"{name.removesuffix('Model')}ForSequenceClassification")
        config["architectures"] = names
    write_json(folder / "config.json", config)
    write_json(folder / LENGTH_FILE, {"max_seq_length": max_length, "do_lower_case": False})


def embed(model: onnx.ModelProto, record: ExportRecord, **entries: Any) -> None:
    """Replace the metadata of a model: the record without its list of models, and entries of this model only.

    Strings are written unchanged, other values as JSON.
    """
    metadata = record.model_dump(mode="json", exclude={"inputs", "models"})
    metadata |= entries

    del model.metadata_props[:]
    for key, value in metadata.items():
        text = value
        if not isinstance(value, str):
            text = json.dumps(value, ensure_ascii=False, sort_keys=True)
        model.metadata_props.add(key=key, value=text)
