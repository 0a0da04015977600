"""Convert the trained classifier to ONNX models.

Reads: ``models/classifier``; ``data/tokenized`` to calibrate int8; ``data/raw`` and
``models/base/source.json`` to record what the model is made of; ``reports/provenance/``.
Computes: one model per precision in ``export.precisions``.
Writes: ``models/candidates/``: the models; ``export.json``, which records how to use the models and where
they come from; and the tokenizer, so that the folder can be deployed alone.

The stage ``compare`` checks that they predict what the trained model predicts, and publishes the models that
pass in ``models/onnx/``.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from tuneline.core.params import ExportParams, Params
from tuneline.core.params.loading import load_params
from tuneline.core.paths import BASE_RECORD, CANDIDATES, CLASSIFIER, RAW, SPLITS, TOKENIZED
from tuneline.core.runtime.files import replace_directory
from tuneline.core.runtime.terminal import progress
from tuneline.core.stage.entry import Measurements, require, run_stage
from tuneline.core.stage.provenance import (
    BaseSource,
    RawSource,
    StageProvenance,
    provenance_file,
    stage_provenance,
)
from tuneline.core.stage.records import split_hash
from tuneline.core.stage.tables import SplitReader, input_columns
from tuneline.model.tasks import Task, trained_task
from tuneline.model.tasks.columns import read_task
from tuneline.model.tokens.batches import length_sorted_batches
from tuneline.model.tokens.tokenized_splits import TokenizedSplit
from tuneline.model.tokens.tokenizer import long_text_beside
from tuneline.onnx.candidates import head_kind, tokenizer_record, write_models
from tuneline.onnx.graph import to_onnx
from tuneline.onnx.int8 import to_int8
from tuneline.onnx.records import DataRecord, ExportRecord, ModelProvenance
from tuneline.onnx.usage import FORMAT

if TYPE_CHECKING:
    from tuneline.model.linear.pooled_classifier import TrainedModel

CALIBRATION_ROWS = 256
"""Rows of the train split by which the activations of int8 are scaled."""
CALIBRATION_BATCH = 16
"""Rows, or windows of rows, of a batch: few, because long ones take gigabytes of memory."""
EARLIER_STAGES = ("base", "download", "tokenize", "train")
LIBRARIES = ("numpy", "onnx", "onnxruntime", "onnxscript", "torch", "transformers")
"""Libraries that the models depend on."""


def export(
    model: "TrainedModel",
    columns: Sequence[str],
    params: ExportParams,
    rows: TokenizedSplit,
    pad_token_id: int,
) -> dict[str, onnx.ModelProto]:
    """Convert a classifier in evaluation mode to all precisions; return the models by precision.

    Args:
        model: The classifier.
        columns: Columns of the tokenized data.
        params: Section ``export``.
        rows: Rows of the train split, which calibrate int8.
        pad_token_id: Token id that fills the shorter rows of a batch.
    """
    with progress("export: conversion to ONNX", unit=""):
        fp32 = to_onnx(model, columns, params.opset)
    exported = {"fp32": fp32}
    if "int8" in params.precisions:
        batches = length_sorted_batches(rows.lengths, CALIBRATION_BATCH, rows.window_counts)
        exported["int8"] = to_int8(fp32, (rows.pad(batch, pad_token_id) for batch in batches))
    return exported


def load_for_tracing(folder: Path) -> "TrainedModel":
    """Load the trained model, which computes no more in its last layer than the classifier reads.

    Attention is "eager": it gives the same logits as the fused implementations with fewer ONNX operators.
    """
    from transformers.utils import logging

    from tuneline.model.linear.pooled_classifier import PooledClassifier, load_classifier
    from tuneline.model.tokens.architectures import restrict_last_layer

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model = load_classifier(folder, "eager")
    if not isinstance(model, PooledClassifier):
        restrict_last_layer(model)
    return model


def new_record(classifier: Path, task: Task, params: Params) -> ExportRecord:
    """Return the record of a trained model of a task before its export."""
    config: dict[str, Any] = json.loads((classifier / "config.json").read_text(encoding="utf-8"))
    long_text = long_text_beside(classifier)
    return ExportRecord(
        format=FORMAT,
        task=task.kind,
        labels=task.names,
        decisions=task.decisions or None,
        text_columns=params.data.text_columns,
        max_length=params.tokenize.max_length,
        long_text=None if long_text.windows is None else long_text,
        pad_token_id=config.get("pad_token_id") or 0,
        tokenizer=tokenizer_record(classifier),
        architecture=config["model_type"],
        head=head_kind(config),
        opset=params.export.opset,
        inputs=[],
        models={},
        provenance=model_provenance(),
    )


def data_record(folder: Path) -> DataRecord:
    """Return the source of the raw splits in a folder, and the SHA-256 of each (``split_hash``)."""
    sha256 = {}
    for split in SPLITS:
        files = SplitReader.open(folder, split, made_by="download").paths
        sha256[split] = split_hash(files)
    return DataRecord(source=RawSource.read_if_exists(folder / "source.json"), sha256=sha256)


def model_provenance() -> ModelProvenance:
    """Return the provenance of the models: their data, and all stages that they went through."""
    stages = {}
    for stage in EARLIER_STAGES:
        stages[stage] = StageProvenance.read(require(provenance_file(stage), stage))
    stages["export"] = stage_provenance("export", LIBRARIES)
    return ModelProvenance(data=data_record(RAW), base=BaseSource.read(BASE_RECORD), stages=stages)


def main() -> Measurements:
    """Read the parameters, the data and the trained model; convert it; write the models."""
    params = load_params()
    require(CLASSIFIER / "config.json", "train")

    # data, and where the model comes from: an incomplete record is found before the conversion
    train = SplitReader.open(TOKENIZED, "train", made_by="tokenize")
    task = trained_task(read_task(train.schema), CLASSIFIER)
    record = new_record(CLASSIFIER, task, params)

    # models
    inputs = input_columns(train.schema)
    rows = TokenizedSplit.read(train).sample(CALIBRATION_ROWS, params.seed)
    exported = export(load_for_tracing(CLASSIFIER), inputs, params.export, rows, record.pad_token_id)

    with replace_directory(CANDIDATES) as folder:
        return write_models(exported, record, CLASSIFIER, folder)


if __name__ == "__main__":
    run_stage("export", main)
