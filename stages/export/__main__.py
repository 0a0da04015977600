"""Convert the trained classifier to ONNX models.

Reads: ``models/classifier``; ``data/tokenized`` to calibrate int8; ``data/raw`` and ``models/base/source.json`` to record what the model
is made of; ``reports/provenance/``.
Computes: one model per precision in ``export.precisions``.
Writes: ``models/candidates/``: the models; ``export.json``, which records how to use the models and where they come from; and the
tokenizer, so that the folder can be deployed alone. The stage ``compare`` checks that their predictions are those of the trained
model and publishes those that pass in ``models/onnx/``.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from stages.export.graph import to_onnx
from stages.export.model_files import save_model
from stages.export.precisions import QuantizationRows, to_fp16, to_int8
from stages.export.record import embed, new_record
from tuneline.files import replace_directory
from tuneline.files.hashes import file_hash
from tuneline.files.schemas import LABELS
from tuneline.files.shards import SplitReader
from tuneline.params import ExportParams
from tuneline.params.loading import load_params
from tuneline.paths import CANDIDATES, CLASSIFIER, TOKENIZED
from tuneline.records.export import EXPORT_RECORD, ExportRecord, ModelRecord
from tuneline.stage import Measurements, require, run_stage

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FILES = {"fp32": "model.onnx", "fp16": "model.fp16.onnx", "int8": "model.int8.onnx"}
COPIED_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")
"""Files of the classifier that are copied beside the models, to tokenize text and to name the classes."""


@dataclass(frozen=True)
class ExportedModel:
    """A model in one precision.

    Attributes:
        graph: The graph with its weights.
        quantization: Method and bits of int8; empty for the other precisions.
    """

    graph: onnx.ModelProto
    quantization: Mapping[str, Any] = field(default_factory=dict)


def export(model: "PreTrainedModel", columns: Sequence[str], params: ExportParams, rows: QuantizationRows) -> dict[str, ExportedModel]:
    """Convert a classifier to all precisions.

    Args:
        model: The trained classifier in evaluation mode.
        columns: Model inputs in the tokenized splits.
        params: The section ``export``.
        rows: Rows for the calibration of int8.

    Returns:
        The models by precision.
    """
    fp32 = to_onnx(model, columns, params.opset)
    exported = {"fp32": ExportedModel(fp32)}
    if "fp16" in params.precisions:
        exported["fp16"] = ExportedModel(to_fp16(fp32))
    if "int8" in params.precisions:
        exported["int8"] = ExportedModel(*to_int8(fp32, params.int8, rows))
    return exported


def load_classifier(folder: Path) -> "PreTrainedModel":
    """Load the trained model for tracing.

    Attention is "eager": it gives the same logits as the fused implementations with fewer ONNX operators.
    """
    from transformers import AutoModelForSequenceClassification
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model: PreTrainedModel = AutoModelForSequenceClassification.from_pretrained(
        folder, dtype="float32", attn_implementation="eager", local_files_only=True, use_safetensors=True
    )
    model.train(False)
    return model


def write_models(exported: Mapping[str, ExportedModel], record: ExportRecord, classifier: Path, folder: Path) -> dict[str, float]:
    """Write the models with the record in their metadata, ``export.json``, and the tokenizer.

    Returns:
        Size of each model in MiB.
    """
    for name in COPIED_FILES:
        shutil.copyfile(require(classifier / name, "train"), folder / name)
    models = {}
    for precision, model in exported.items():
        quantization = {"quantization": model.quantization} if model.quantization else {}
        embed(model.graph, record, precision=precision, **quantization)
        files = save_model(model.graph, folder / FILES[precision])
        hashes = {file.name: file_hash(file) for file in files}
        size = sum(file.stat().st_size for file in files)
        models[precision] = ModelRecord(file=files[0].name, bytes=size, sha256=hashes, **model.quantization)
    inputs = [value.name for value in exported["fp32"].graph.graph.input]
    record.model_copy(update={"inputs": inputs, "models": models}).write(folder / EXPORT_RECORD)
    return {f"{precision}_mb": round(model.bytes / 2**20, 2) for precision, model in models.items()}


def main() -> Measurements:
    """Read the parameters, the data and the trained model; convert it; write the models."""
    params = load_params()
    require(CLASSIFIER / "config.json", "train")
    splits = {split: SplitReader.open(TOKENIZED, split, made_by="tokenize") for split in ("train", "validation")}
    record = new_record(CLASSIFIER, params)
    columns = [name for name in splits["train"].schema.names if name != LABELS]
    rows = QuantizationRows(splits["train"], splits["validation"], record.pad_token_id, params.seed)
    exported = export(load_classifier(CLASSIFIER), columns, params.export, rows)
    with replace_directory(CANDIDATES) as folder:
        return write_models(exported, record, CLASSIFIER, folder)


if __name__ == "__main__":
    run_stage("export", main)
