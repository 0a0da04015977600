"""Where outs come from: origins of the base model and the raw splits, and what each stage made its outs with.

The origins are ``models/base/source.json`` and ``data/raw/source.json``. Provenance of a stage is its
parameters, code, libraries and devices.
``download``, ``tokenize`` and ``train`` write theirs beside their outs, and ``export`` puts them into the
record of the model. A file of its own, because a changed comment in the code of ``download`` changes its
provenance but not the data, so nothing is trained again.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from tuneline.core.params.loading import read_yaml
from tuneline.core.paths import PARAMS, PIPELINE, PROVENANCE
from tuneline.core.runtime.errors import StageError
from tuneline.core.stage.code import code_hash
from tuneline.core.stage.records import OMITTED, Record, write_record


class PretrainedSource(Record):
    """A pretrained model that was brought into the project."""

    name: str
    """Name on the hub, or the path of a folder under ``models/source/``."""
    commit: str | None = OMITTED
    """Commit on the hub; a folder has none."""
    license: str | None
    """Licence that its model card states."""
    sha256: Mapping[str, str]
    """SHA-256 of each file, by name."""

    @property
    def checksum(self) -> str:
        """SHA-256 of the weights, or of the tokenizer where there are no weights.

        It is the hash of the file if there is one, else a hash over the names and hashes of all files.
        """
        weights = {name: value for name, value in self.sha256.items() if name.endswith(".safetensors")}
        hashes = weights or dict(self.sha256)
        if len(hashes) == 1:
            return next(iter(hashes.values()))
        lines = [f"{value}  {name}\n" for name, value in sorted(hashes.items())]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def description(self) -> str:
        """Name, commit, licence and checksum in one line, for people."""
        name = self.name
        if self.commit:
            name = f"{name} at {self.commit}"
        return f"{name}, licence {self.license or 'not stated'}, SHA-256 {self.checksum}"


class BaseSource(Record):
    """Origin of ``models/base/``."""

    written_by: ClassVar[str] = "base"

    checkpoint: PretrainedSource | None
    """The checkpoint in ``models/base/model/``; ``None``: the model is trained from scratch."""
    tokenizer: PretrainedSource | None
    """The tokenizer in ``models/base/tokenizer/``; ``None``: one is trained on the train split."""


class SplitSource(Record):
    """Origin of one raw split."""

    specification: str = Field(alias="from")
    """The split of the source, as in ``data.splits``."""
    rows: int
    left_out: int
    """Rows of the source's split that are not in the split: incomplete ones, or beyond ``data.max_rows``."""


class Splitting(Record):
    """How one split of the source was divided: ``data.split``, and what it gave."""

    validation: float
    test: float
    by: str | None
    stratify: bool
    seed: int


class AppliedCorrections(Record):
    """What ``data/corrections/`` changed in the rows of the source."""

    labels: int
    """Rows that got another label."""
    dropped: int
    """Rows that were left out."""
    unmatched: int
    """Corrections that match no row: its texts or its label are others now."""
    sha256: Mapping[str, str]
    """SHA-256 of each file of corrections, by name."""


class RawSource(Record):
    """Origin of the raw splits. Each kind of source has keys of its own."""

    written_by: ClassVar[str] = "download"

    source: str
    """``sample``, ``files`` or ``hub``, as in ``data.source``."""
    rows: int | None = OMITTED
    """sample: number of tickets."""
    mislabelled: float | None = OMITTED
    """sample: fraction of the tickets with a wrong label."""
    seed: int | None = OMITTED
    """sample: seed of the generator."""
    files: Mapping[str, str] | None = OMITTED
    """files: the files that were read, by split of the source."""
    batches: Mapping[str, Mapping[str, int]] | None = OMITTED
    """files: the batches that were read and their rows, by split of the source."""
    path: str | None = OMITTED
    """hub: id of the data set."""
    name: str | None = OMITTED
    """hub: its configuration."""
    revision: str | None = OMITTED
    """hub: commit, tag or branch that was asked for."""
    commit: str | None = OMITTED
    """hub: commit that was read."""
    splits: Mapping[str, SplitSource]
    label_names: Sequence[str] | None
    """Class names in the order of their ids; ``None`` for a regression."""
    split: Splitting | None = OMITTED
    corrections: AppliedCorrections | None = OMITTED

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The keys of the source whose values are not nested, for people."""
        content = self.model_dump(mode="json")
        return {key: value for key, value in content.items() if isinstance(value, str | int | float)}


class DevicesUsed(Record):
    """Devices that a model was trained on: another kind, precision or number of them gives other weights."""

    type: str
    """``cpu``, ``cuda`` or another type of torch."""
    precision: str
    """``no`` (float32), ``fp16`` or ``bf16``."""
    processes: int
    distribution: str
    """How accelerate distributes the training: ``NO``, ``MULTI_GPU``, ``FSDP``, ..."""

    def __str__(self) -> str:
        precision = "float32" if self.precision == "no" else self.precision
        text = f"{self.type}, {precision}"
        if self.processes > 1:
            text += f", {self.processes} processes ({self.distribution})"
        return text


class StageProvenance(Record):
    """Inputs of a stage other than its data: ``reports/provenance/STAGE.json``."""

    parameters: Mapping[str, Any]
    """Values of the keys that ``dvc.yaml`` lists for the stage."""
    code: str
    """SHA-256 over the code that the stage runs (``code_hash``)."""
    libraries: Mapping[str, str]
    """Versions of the libraries that its outs depend on, without build tags such as ``+cpu``."""
    devices: DevicesUsed | None = OMITTED
    """Devices of ``train``."""
    corrections: AppliedCorrections | None = OMITTED
    """Corrections of the data by ``download``, if there are any."""


def stage_provenance(
    stage: str,
    libraries: Sequence[str],
    devices: DevicesUsed | None = None,
    corrections: AppliedCorrections | None = None,
) -> StageProvenance:
    """Return the provenance of a stage of the project in the current folder.

    Raises:
        StageError: ``dvc.yaml`` lists a parameter or a file of code that does not exist.
    """
    listed = read_yaml(PIPELINE)["stages"][stage]["params"]
    keys = [key for key in listed if isinstance(key, str)]  # a mapping lists keys of another file
    versions = {name: importlib.metadata.version(name) for name in libraries}
    return StageProvenance(
        parameters=select(read_yaml(PARAMS), keys),
        code=code_hash(stage),
        # without the build tag: 2.13.0+cpu is 2.13.0
        libraries={name: version.partition("+")[0] for name, version in versions.items()},
        devices=devices,
        corrections=corrections,
    )


def write_provenance(
    stage: str,
    libraries: Sequence[str],
    devices: DevicesUsed | None = None,
    corrections: AppliedCorrections | None = None,
) -> None:
    """Write ``reports/provenance/STAGE.json``; for the arguments, see ``stage_provenance``."""
    provenance = stage_provenance(stage, libraries, devices=devices, corrections=corrections)
    write_record(provenance_file(stage), provenance)


def provenance_file(stage: str) -> Path:
    """Return the path of a stage's provenance."""
    return PROVENANCE / f"{stage}.json"


def select(values: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return the values of dotted keys in nested parameters, sorted by key.

    Raises:
        StageError: The parameters lack a key.
    """
    selected = {}
    for key in sorted(keys):
        value: Any = values
        try:
            for name in key.split("."):
                value = value[name]
        except KeyError as error:
            raise StageError(
                f"dvc.yaml lists a parameter that params.yaml does not have: {error}.",
                "Correct one of the two.",
            ) from None
        selected[key] = value
    return selected


def parameters_hash(stages: Mapping[str, StageProvenance]) -> str:
    """Return one SHA-256 over the parameters of several stages."""
    values = {name: dict(stage.parameters) for name, stage in stages.items()}
    return hashlib.sha256(json.dumps(values, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
