"""Small hand-over records."""

from typing import Any

from tuneline.core.stage.provenance import DevicesUsed, StageProvenance
from tuneline.onnx.records import DataRecord, ExportRecord, ModelProvenance
from tuneline.onnx.usage import FORMAT, ModelRecord, TokenizerRecord


def export_record(models: dict[str, dict[str, Any]] | None = None, **changes: Any) -> ExportRecord:
    """Return a record of exported models.

    Args:
        models: What differs from a file of 2 MiB, by precision. Default: fp32.
        changes: Other values of the record.
    """
    files = {"fp32": "model.onnx", "int8": "model.int8.onnx"}
    devices = DevicesUsed(type="cuda", precision="bf16", processes=2, distribution="MULTI_GPU")
    stage = StageProvenance(
        parameters={"seed": 42}, code="c" * 64, libraries={"torch": "2.13.0"}, devices=devices
    )
    values = {
        "format": FORMAT,
        "task": "classification",
        "labels": ["billing", "delivery", "damage"],
        "text_columns": ["subject", "body"],
        "max_length": 128,
        "pad_token_id": 0,
        "tokenizer": TokenizerRecord(file="tokenizer.json", sha256="f" * 64, truncation_side="right"),
        "architecture": "bert",
        "opset": 20,
        "inputs": ["input_ids", "attention_mask"],
        "models": {
            name: ModelRecord(
                **{"file": files[name], "bytes": 2**21, "sha256": {files[name]: "0" * 64}, **model}
            )
            for name, model in ({"fp32": {}} if models is None else models).items()
        },
        "provenance": ModelProvenance(
            data=DataRecord(source=None, sha256={"train": "d" * 64}), stages={"train": stage}
        ),
    }
    return ExportRecord(**{**values, **changes})
