"""How to use exported models: the part of ``export.json`` that a program reads."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from tuneline.core.runtime.errors import StageError
from tuneline.core.stage.records import OMITTED, Number, Record, content_key, file_hash
from tuneline.model.tokens.long_text import LongText

EXPORT_RECORD = "export.json"
"""Name of the file in a folder of models."""
FORMAT = 2
"""Version of the file. It increases when a key is removed or changes its meaning."""
NO_MODEL = "`dvc repro` exports one; --model names another folder or file."
DAMAGED = (
    "`dvc checkout --force` restores it; if DVC's cache is damaged as well, `dvc repro --single-item -f"
    " compare` writes it anew. Or copy the folder again."
)

VERSION_DIGITS = 12
"""Hexadecimal digits of a hash that name a model which is not a version of the registry."""

FileName = Annotated[str, Field(pattern=r"^[^./\x00-\x1f][^/\x00-\x1f]*$")]
"""Name of a file in the same folder: who writes the record names no other file of the machine."""


class TokenizerRecord(Record):
    """The tokenizer beside the models."""

    file: FileName
    sha256: str
    truncation_side: str


class CostRecord(Record):
    """What errors cost, where that decides about the answers of a model."""

    errors: Mapping[str, Mapping[str, Number]]
    """Cost of each error, by the class that is right and the class that is answered."""
    abstain: Number | None = OMITTED
    """Cost of no answer; ``None``: every row gets an answer."""


class ModelRecord(Record):
    """One exported model."""

    file: FileName
    """Name of the ONNX file; weights of 2 GB and more are in a second file beside it."""
    bytes: int
    """Size of all its files."""
    sha256: Mapping[FileName, str]
    decisions: Mapping[str, Any] | None = OMITTED
    """How its outputs become predictions, where that differs from ``UsageRecord.decisions``; ``compare`` adds
    it.
    """
    costs: CostRecord | None = OMITTED
    """What errors cost, where that decides about its answers; ``compare`` adds it."""
    metrics: Mapping[str, Number] | None = OMITTED
    """Metrics of this model on the reported split; ``compare`` adds them when it publishes the model."""
    probe_outputs: Sequence[Sequence[Number]] | None = OMITTED
    """Outputs for the rows of ``UsageRecord.probes``; ``compare`` adds them."""


class UsageRecord(Record):
    """How to use the models of a folder, also of one that another version of Tuneline exported."""

    written_by = "compare"

    format: int
    task: str
    labels: Sequence[str] | None
    """Class names in the order of their ids; ``None``: labels are numbers."""
    decisions: Mapping[str, Any] | None = OMITTED
    """How outputs become predictions, such as the threshold of each label, where it was chosen."""
    text_columns: Sequence[str]
    max_length: int
    """Maximal tokens that the model reads at once, special tokens included."""
    long_text: LongText | None = OMITTED
    """What becomes of rows with more tokens; ``None``: they are truncated."""
    pad_token_id: int
    tokenizer: TokenizerRecord
    architecture: str
    head: str | None = OMITTED
    """``frozen``: a linear model on the frozen checkpoint. ``mean``: the same, fine-tuned.

    ``None``: a model of transformers.
    """
    opset: int
    inputs: Sequence[str]
    models: Mapping[str, ModelRecord]
    evidence: str | None = OMITTED
    """SHA-256 of ``evidence.parquet``, by which promises about answers are made; ``compare`` adds it."""
    probes: Sequence[Sequence[str]] | None = OMITTED
    """Rows by which it is noticed that a model computes other numbers than it did; ``compare`` adds them."""
    left_out: Mapping[str, Sequence[str]] | None = OMITTED
    """Why a precision that was exported is not published, as messages; ``compare`` adds it."""


def exported_file(path: Path, precision: str | None = None) -> Path:
    """Find an ONNX file, and check that all files that belong to it have the hashes of ``export.json``.

    Args:
        path: A folder of models, or the ONNX file in it.
        precision: Which model of the folder; ``None``: fp32. Not used if ``path`` is a file.

    Raises:
        StageError: The model or its record is missing, or a file was changed since the export: its
            predictions would be other ones.
    """
    is_file = path.is_file()
    folder = path.parent if is_file else path
    if not (folder / EXPORT_RECORD).exists():
        raise StageError(f"{folder} has no exported model: {EXPORT_RECORD} is missing.", NO_MODEL)
    record = UsageRecord.read(folder / EXPORT_RECORD)

    # the model, by the name of its file or by its precision
    if is_file:
        name = path.name
        models = {model.file: model for model in record.models.values()}
    else:
        name = precision or "fp32"
        models = dict(record.models)
    if name not in models:
        raise _missing_model(folder, name, record)
    model = models[name]

    # its files, and the tokenizer. A record that has no hash for the ONNX file itself is refused: no file
    # has an empty hash.
    hashes = {model.file: "", **model.sha256, record.tokenizer.file: record.tokenizer.sha256}
    for file_name, sha256 in hashes.items():
        file = folder / file_name
        if not file.is_file():
            raise StageError(f"{file} is missing.", DAMAGED)
        if file_hash(file) != sha256:
            raise StageError(
                f"{file} is damaged, or of another model: {EXPORT_RECORD} has another hash for it.", DAMAGED
            )
    return folder / model.file


def model_record(file: Path) -> ModelRecord:
    """Return the record of an ONNX file that ``exported_file`` has found."""
    record = UsageRecord.read(file.parent / EXPORT_RECORD)
    models = {model.file: model for model in record.models.values()}
    return models[file.name]


def content_version(record: UsageRecord, model: ModelRecord) -> str:
    """Return the name of a model that is not a version of the registry: another one predicts other things.

    It is the start of a hash of the model, its tokenizer and its decisions.
    """
    parts = (model.sha256[model.file], record.tokenizer.sha256, model.decisions, dict(model)["costs"])
    return content_key(*map(str, parts))[:VERSION_DIGITS]


def _missing_model(folder: Path, name: str, record: UsageRecord) -> StageError:
    """Return the error for a model that is not in a folder, with the reasons why it was not published."""
    precisions = ", ".join(record.models)
    reasons = (record.left_out or {}).get(name)
    if not reasons:
        return StageError(
            f"{folder} has no model {name}; it has {precisions}.",
            "Add it to export.precisions and run `dvc repro`.",
        )
    return StageError(
        f"{folder} has no model {name}, because it differs too much from the trained one:"
        f" {'; '.join(reasons)}.",
        f"Use {precisions}; without --precision, fp32 predicts. What a rounded model may lose is set by"
        f" compare.{name}.",
    )
