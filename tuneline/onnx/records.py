"""The record of exported models, ``export.json``: how to use them, and where they come from.

It is in the metadata of each model, too. It contains no time, no path of the machine and no commit: it is a
function of the stage's inputs, and the commit is created later.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import model_validator

from tuneline.core.stage.provenance import BaseSource, RawSource, StageProvenance, parameters_hash
from tuneline.core.stage.records import OMITTED, Record
from tuneline.onnx.usage import FORMAT, UsageRecord


class DataRecord(Record):
    """The raw splits: ``data/raw/source.json``, and the hash of each split (``split_hash``)."""

    source: RawSource | None
    sha256: Mapping[str, str]


class ModelProvenance(Record):
    """Where a model comes from: its data, its base model, and each stage that it went through, by name."""

    data: DataRecord
    base: BaseSource | None = OMITTED
    """Pretrained model and tokenizer."""
    stages: Mapping[str, StageProvenance]

    @property
    def parameters_hash(self) -> str:
        """SHA-256 over the parameters of all stages."""
        return parameters_hash(self.stages)

    @property
    def libraries(self) -> dict[str, str]:
        """Version of each library; several if the stages ran with different ones."""
        versions: dict[str, list[str]] = {}
        for stage in self.stages.values():
            for name, version in stage.libraries.items():
                versions.setdefault(name, []).append(version)

        # each version once, in the order of the stages
        return {name: " and ".join(dict.fromkeys(versions[name])) for name in sorted(versions)}


class ExportRecord(UsageRecord):
    """How to use the models of a folder, and where they come from."""

    provenance: ModelProvenance
    split: str | None = OMITTED
    """The reported split, on which the metrics of the models were computed; ``compare`` adds it."""

    @model_validator(mode="before")
    @classmethod
    def _readable(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        if values.get("format") != FORMAT:
            raise ValueError(
                f"its format is {values.get('format')}, and this version of Tuneline reads {FORMAT}"
            )
        return values
