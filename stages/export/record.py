"""The record of the exported models: how to use them, and their provenance."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from tuneline.errors import DataError
from tuneline.files.hashes import file_hash
from tuneline.files.shards import SplitReader
from tuneline.params import Params
from tuneline.paths import BASE_RECORD, RAW, SPLITS
from tuneline.records.export import FORMAT, DataRecord, ExportRecord, ModelProvenance, TokenizerRecord
from tuneline.records.provenance import StageProvenance, provenance_file, split_hash, stage_provenance
from tuneline.records.source import BaseSource, RawSource
from tuneline.stage import require

EARLIER_STAGES = ("base", "download", "tokenize", "train")
LIBRARIES = ("numpy", "onnx", "onnxruntime", "onnxscript", "torch", "transformers")


def new_record(classifier: Path, params: Params) -> ExportRecord:
    """Return the record of a trained model before its export.

    Args:
        classifier: Folder of the trained model.
        params: All parameters.
    """
    config = _read_json(classifier / "config.json")
    regression = config.get("problem_type") == "regression"
    return ExportRecord(
        format=FORMAT,
        task="regression" if regression else "classification",
        labels=None if regression else label_names(config),
        text_columns=params.data.text_columns,
        max_length=params.tokenize.max_length,
        pad_token_id=config.get("pad_token_id") or 0,
        tokenizer=tokenizer_record(classifier),
        architecture=config["model_type"],
        opset=params.export.opset,
        inputs=[],
        models={},
        provenance=model_provenance(),
    )


def tokenizer_record(folder: Path) -> TokenizerRecord:
    """Return the record of the tokenizer in a folder."""
    config = _read_json(folder / "tokenizer_config.json")
    sha256 = file_hash(folder / "tokenizer.json")
    return TokenizerRecord(file="tokenizer.json", sha256=sha256, truncation_side=config.get("truncation_side", "right"))


def label_names(config: Mapping[str, Any]) -> list[str]:
    """Return the class names in the order of their ids."""
    names = config.get("id2label")
    if not names:
        raise DataError("models/classifier/config.json has no id2label.", "Train again: `dvc repro -f train`.")
    return [names[key] for key in sorted(names, key=int)]


def data_record(folder: Path) -> DataRecord:
    """Return the source of the raw splits in a folder, and the SHA-256 of each (``split_hash``)."""
    sha256 = {split: split_hash(SplitReader.open(folder, split, made_by="download").paths) for split in SPLITS}
    return DataRecord(source=RawSource.read_if_exists(folder / "source.json"), sha256=sha256)


def model_provenance() -> ModelProvenance:
    """Return the provenance of the models: their data, and all stages that they went through."""
    earlier = {stage: StageProvenance.read(require(provenance_file(stage), stage)) for stage in EARLIER_STAGES}
    stages = {**earlier, "export": stage_provenance("export", LIBRARIES)}
    return ModelProvenance(data=data_record(RAW), base=BaseSource.read(BASE_RECORD), stages=stages)


def embed(model: onnx.ModelProto, record: ExportRecord, **own: Any) -> None:
    """Write the record, without what it says about all models, into the metadata of one: strings unchanged, other values as JSON.

    Args:
        model: The model; its metadata is replaced.
        record: The record.
        own: What is to be recorded about this model only.
    """
    del model.metadata_props[:]
    for key, value in {**record.model_dump(mode="json", exclude={"inputs", "models"}), **own}.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
        model.metadata_props.add(key=key, value=text)


def _read_json(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return values
