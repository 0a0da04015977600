"""Turns the trained classifier into ONNX models.

Reads ``models/classifier``; of the data, ``data/tokenized`` for the calibration of int8 and ``data/raw`` for its hashes; and
``metrics/evaluate.json`` for how good the model is. Writes ``models/candidates/``: one model per precision,
``export.json`` with what must be known to use and to trace them, and the tokenizer, so that the folder serves on its
own. They are candidates until the stage ``compare`` has found that they predict what the trained model does; it
publishes those that pass in ``models/onnx/``.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import pyarrow.parquet as pq

from stages.export.calibration import Rows, make_int8
from stages.export.graph import to_onnx
from stages.export.half import to_fp16
from stages.export.provenance import chosen, code_hash, data_record, declared, file_hash, library_versions, parameters_record
from stages.export.record import embed, use_record
from stages.export.storage import save
from tuneline.files import replace_directory, write_json
from tuneline.files.schemas import LABELS
from tuneline.params import ExportParams, Params
from tuneline.params.loading import load_params
from tuneline.paths import CANDIDATES, CLASSIFIER, METRICS, RAW, SPLITS, TOKENIZED, split_file
from tuneline.stage import require, run_stage

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FILES = {"fp32": "model.onnx", "fp16": "model.fp16.onnx", "int8": "model.int8.onnx"}
BESIDE = ("config.json", "tokenizer.json", "tokenizer_config.json")
"""Copied beside the models: what a program needs to turn text into their inputs, and their outputs into names."""
GRAPH = Path("dvc.yaml")


@dataclass(frozen=True)
class Made:
    """An exported model, and what to say about how it was made."""

    model: onnx.ModelProto
    notes: Mapping[str, Any] = field(default_factory=dict)


def export(model: "PreTrainedModel", columns: Sequence[str], params: ExportParams, rows: Rows) -> dict[str, Made]:
    """Makes the models.

    Args:
        model: The trained classifier, in evaluation mode.
        columns: The model inputs that the tokenized splits have.
        params: Opset, precisions, the way to 8 bits.
        rows: For the calibration of int8.

    Returns:
        What was made, by precision.
    """
    fp32 = to_onnx(model, columns, params.opset)
    made = {"fp32": Made(fp32)}
    if "fp16" in params.precisions:
        made["fp16"] = Made(to_fp16(fp32))
    if "int8" in params.precisions:
        made["int8"] = Made(*make_int8(fp32, params.int8, rows))
    return made


def load_classifier(folder: Path) -> "PreTrainedModel":
    """The trained model, ready to be traced.

    Attention is written out ("eager"): it gives the same numbers as the fused kinds, in fewer ONNX operators.
    """
    from transformers import AutoModelForSequenceClassification
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model: PreTrainedModel = AutoModelForSequenceClassification.from_pretrained(
        folder, dtype="float32", attn_implementation="eager", local_files_only=True, use_safetensors=True
    )
    model.train(False)
    return model


def provenance(params: Params) -> dict[str, Any]:
    """What made the model, from what ``dvc.yaml`` lists for this stage."""
    code, keys = declared(GRAPH, "export")
    metrics = json.loads(require(METRICS / "evaluate.json", "evaluate").read_text(encoding="utf-8"))
    return {
        "data": data_record(RAW, SPLITS),
        "parameters": parameters_record(chosen(params.model_dump(mode="json", by_alias=True), keys)),
        "code": {"sha256": code_hash(code)},
        "libraries": library_versions(),
        "metrics": {"split": params.evaluate.split, **metrics},
    }


def write(made: Mapping[str, Made], record: Mapping[str, Any], classifier: Path, folder: Path) -> dict[str, float]:
    """Fills a folder with the models, each with the record inside it, ``export.json``, and the tokenizer.

    Returns:
        Size of each model in MB.
    """
    for name in BESIDE:
        shutil.copyfile(require(classifier / name, "train"), folder / name)
    models: dict[str, Any] = {}
    for precision, one in made.items():
        quantization = {"quantization": one.notes} if one.notes else {}
        embed(one.model, {**record, "precision": precision, **quantization})
        files = save(one.model, folder / FILES[precision])
        size = sum(file.stat().st_size for file in files)
        models[precision] = {"file": files[0].name, "bytes": size, "sha256": {file.name: file_hash(file) for file in files}, **one.notes}
    inputs = [given.name for given in made["fp32"].model.graph.input]
    write_json(folder / "export.json", {**record, "inputs": inputs, "models": models})
    return {f"{precision}_mb": round(model["bytes"] / 2**20, 2) for precision, model in models.items()}


def main() -> dict[str, float]:
    """Reads parameters, data and the trained model, exports, writes."""
    params = load_params()
    require(CLASSIFIER / "config.json", "train")
    splits = {split: require(split_file(TOKENIZED, split), "tokenize") for split in ("train", "validation")}
    record = use_record(CLASSIFIER, params.data.text_columns, params.tokenize.max_length)
    record |= {"opset": params.export.opset, "provenance": provenance(params)}
    columns = [name for name in pq.read_schema(splits["train"]).names if name != LABELS]
    rows = Rows(splits["train"], splits["validation"], record["pad_token_id"], params.seed)
    made = export(load_classifier(CLASSIFIER), columns, params.export, rows)
    with replace_directory(CANDIDATES) as folder:
        return write(made, record, CLASSIFIER, folder)


if __name__ == "__main__":
    run_stage("export", main)
