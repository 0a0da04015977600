"""Provenance of a stage: the parameters, code, libraries and devices that its outs were made with.

``download``, ``tokenize`` and ``train`` write theirs beside their outs, and ``export`` puts them into the
record of the model. A file of its own, because a changed comment in the code of ``download`` changes its
provenance but not the data, so nothing is trained again.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from tuneline.core.errors import StageError
from tuneline.core.files import file_hash, read_yaml
from tuneline.core.paths import PARAMS, PROVENANCE
from tuneline.core.records import OMITTED, Record


class SplitSource(Record):
    """Origin of one raw split."""

    specification: str = Field(alias="from")
    """As in ``data.splits``, for example ``train[90%:]+extra``."""
    rows: int
    left_out: int
    """Rows of the specification that are not in the split: incomplete ones, or beyond ``data.max_rows``."""


class Splitting(Record):
    """How one split of the source was divided: ``data.split``, and what it gave."""

    validation: float
    test: float
    by: str | None
    stratify: bool
    seed: int
    rows_without_group: int
    """Rows without a value in the column ``by``; each of them is a group of its own."""


class AppliedCorrections(Record):
    """What ``data/corrections/`` changed in the rows of the source."""

    labels: int
    """Rows that got another label."""
    dropped: int
    """Rows that were left out."""
    unmatched: int
    """Corrections that match no row."""
    stale: int
    """Label corrections that were not applied, because the row has another label now than the one that was corrected."""
    sha256: Mapping[str, str]
    """SHA-256 of each file of corrections, by name."""


class RemoteSource(Record):
    """A file of a storage, as it was when it was read."""

    size: int
    """Its size in bytes."""
    version: str | None
    """Its ETag, or another name of its version."""
    sha256: str
    """Hash of its content."""


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
    remote: Mapping[str, RemoteSource] | None = OMITTED
    """files: those of ``files`` and ``batches`` that are on a storage (``data.path: s3://...``), which DVC does not track."""
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
        """The keys of the source, those that are not nested, for people."""
        return {
            key: value
            for key, value in self.model_dump(mode="json").items()
            if isinstance(value, str | int | float)
        }


class PretrainedSource(Record):
    """A pretrained model that was brought into the project, whole or its tokenizer only."""

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
        """SHA-256 of the weights, or of the tokenizer: that of the file if there is one, else over the names and hashes of all."""
        hashes = {
            name: value for name, value in self.sha256.items() if name.endswith(".safetensors")
        } or dict(self.sha256)
        if len(hashes) == 1:
            return next(iter(hashes.values()))
        return hashlib.sha256(
            "".join(f"{value}  {name}\n" for name, value in sorted(hashes.items())).encode()
        ).hexdigest()

    @property
    def description(self) -> str:
        """Name, commit, licence and checksum in one line, for people."""
        at = f" at {self.commit}" if self.commit else ""
        return f"{self.name}{at}, licence {self.license or 'not stated'}, SHA-256 {self.checksum}"


class BaseSource(Record):
    """Origin of ``models/base/``."""

    written_by: ClassVar[str] = "base"

    checkpoint: PretrainedSource | None
    """The checkpoint in ``models/base/model/``; ``None``: the model is trained from scratch."""
    tokenizer: PretrainedSource | None
    """The tokenizer in ``models/base/tokenizer/``; ``None``: one is trained on the train split."""


ROOT = Path(__file__).parents[2]
"""Root of the project that this code is part of."""
PIPELINE_CODE = ("stages", "tuneline")
"""Packages that contain the code of the pipeline."""
CODE = ("project", *PIPELINE_CODE)
"""The same, and the user's losses and metrics."""


class TrainingSegment(Record):
    """A part of a training with one layout on one kind of machine.

    The bytes of a model repeat only if there is no other part.
    """

    step: int
    """Optimizer steps that were done before it."""
    device: str
    """Type of the device, as torch names it."""
    processes: int
    micro_batch_size: int
    micro_batch_tokens: int | None = OMITTED
    threads: int | None = OMITTED
    """Threads of each process, on a CPU."""
    processor: str | None = OMITTED
    """The GPU's name, or the instructions of the CPU that torch uses, with the variables that limit them."""
    libraries: Mapping[str, str] | None = OMITTED
    """Versions of Python and of the libraries."""

    def __str__(self) -> str:
        threads = f" with {self.threads} thread{'s' * (self.threads != 1)}" if self.threads else ""
        python = f"Python {self.libraries['python']}" if self.libraries else None
        tokens = f"micro_batch_tokens {self.micro_batch_tokens}" if self.micro_batch_tokens else None
        kind = ", ".join(
            filter(
                None,
                (self.device, self.processor, python, f"micro_batch_size {self.micro_batch_size}", tokens),
            )
        )
        return f"{self.processes} process{'es' * (self.processes != 1)}{threads} ({kind})"

    def has_layout_of(self, other: "TrainingSegment") -> bool:
        """Return True if the two differ in nothing but the step."""
        return self.model_copy(update={"step": other.step}) == other


class DevicesUsed(Record):
    """Devices that a model was trained on: another kind, precision or number of processes gives other weights."""

    type: str
    """``cpu``, ``cuda`` or another type of torch."""
    precision: str
    """``no`` (float32), ``fp16`` or ``bf16``."""
    processes: int
    distribution: str
    """How accelerate distributes the training: ``NO``, ``MULTI_GPU``, ``FSDP``, ..."""
    segments: Sequence[TrainingSegment] | None = OMITTED
    """Parts of a training that was resumed with another layout or on another kind of machine.

    Its bytes are not promised to repeat.
    """

    def __str__(self) -> str:
        precision = "float32" if self.precision == "no" else self.precision
        several = f", {self.processes} processes ({self.distribution})" if self.processes > 1 else ""
        parts = "; ".join(f"from step {segment.step} {segment}" for segment in self.segments or ())
        return f"{self.type}, {precision}{several}" + (
            f"; the bytes are not those of one kind of machine: {parts}" if parts else ""
        )


class StageProvenance(Record):
    """Inputs of a stage other than its data: ``reports/provenance/STAGE.json``."""

    parameters: Mapping[str, Any]
    """Values of the keys that ``dvc.yaml`` lists for the stage."""
    code: str
    """SHA-256 over the names and bytes of the stage's Python files."""
    libraries: Mapping[str, str]
    """Versions of the libraries that its outs depend on, without build tags such as ``+cpu``."""
    devices: DevicesUsed | None = OMITTED
    """Devices of ``train``."""
    corrections: AppliedCorrections | None = OMITTED
    """Corrections of the data by ``download``, if there are any."""


def stage_provenance(
    stage: str,
    libraries: Sequence[str],
    root: Path = ROOT,
    devices: DevicesUsed | None = None,
    corrections: AppliedCorrections | None = None,
) -> StageProvenance:
    """Return the provenance of a stage in ``dvc.yaml``, with the parameters of the current folder and the versions of libraries.

    Raises:
        StageError: ``dvc.yaml`` lists a parameter or a file of code that does not exist.
    """
    block = read_yaml(root / "dvc.yaml")["stages"][stage]
    return StageProvenance(
        parameters=select(read_yaml(PARAMS), block["params"]),
        code=code_hash(root, [dep for dep in block["deps"] if Path(dep).parts[0] in CODE]),
        libraries={name: importlib.metadata.version(name).partition("+")[0] for name in libraries},
        devices=devices,
        corrections=corrections,
    )


def provenance_file(stage: str) -> Path:
    """Return the path of a stage's provenance."""
    return PROVENANCE / f"{stage}.json"


def select(values: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return the values of dotted keys in nested parameters, sorted by key."""
    try:
        return {
            key: reduce(lambda section, name: section[name], key.split("."), values) for key in sorted(keys)
        }
    except KeyError as error:
        raise StageError(
            f"dvc.yaml lists a parameter that params.yaml does not have: {error}.", "Correct one of the two."
        ) from None


def parameters_hash(stages: Mapping[str, StageProvenance]) -> str:
    """Return one SHA-256 over the parameters of several stages."""
    values = {name: dict(stage.parameters) for name, stage in stages.items()}
    return hashlib.sha256(json.dumps(values, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def code_hash(root: Path, paths: Sequence[str]) -> str:
    """Return one SHA-256 over the names and bytes of Python and JSON files, also those inside folders, in the order of their names."""
    if missing := [path for path in paths if not (root / path).exists()]:
        raise StageError(
            f"dvc.yaml lists {missing[0]} in deps, but it does not exist.", "Correct the path, or remove it."
        )
    inside = {file for path in paths for file in (root / path).rglob("*") if file.suffix in (".py", ".json")}
    files = inside | {root / path for path in paths if (root / path).is_file()}
    lines = [f"{file_hash(file)}  {file.relative_to(root).as_posix()}\n" for file in sorted(files)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def stage_code(stage: str, root: Path = ROOT) -> str:
    """Return one SHA-256 over the code that ``dvc.yaml`` names as dependencies of a stage, without the user's own functions.

    What an interrupted stage has done is continued only by the same code: the code that would make DVC run
    the stage again.
    """
    deps = read_yaml(root / "dvc.yaml")["stages"][stage]["deps"]
    return code_hash(root, [dep for dep in deps if Path(dep).parts[0] in PIPELINE_CODE])


def split_hash(files: Sequence[Path]) -> str:
    """Return one SHA-256 for the files of a split, as ``split_files`` gives them: the file's own, if it is the only one.

    That of shards is what ``sha256sum train-*.parquet | sha256sum`` prints: a hash of their hashes and names.
    """
    if len(files) == 1:
        return file_hash(files[0])
    return hashlib.sha256("".join(f"{file_hash(file)}  {file.name}\n" for file in files).encode()).hexdigest()


SMALL_FILE = 65_536
"""Bytes up to which the content of an out counts for its key; of a larger file, name and size do."""


def outs_key(stage: str, root: Path) -> str | None:
    """Return a key of the present outs and metrics of a stage in ``dvc.yaml``, cheap for large ones; ``None`` if it is not there.

    It tells runs apart whose weights have the same size, because metrics, curves and records are small.
    """
    path = root / "dvc.yaml"
    block = read_yaml(path)["stages"].get(stage) if path.exists() else None
    if block is None:
        return None
    listed = [
        next(iter(out)) if isinstance(out, dict) else out
        for out in (*block.get("outs", ()), *block.get("metrics", ()))
    ]
    digest = hashlib.sha256()
    for file in sorted(
        file for out in listed for file in (root / out, *(root / out).rglob("*")) if file.is_file()
    ):
        size = file.stat().st_size
        content = file_hash(file) if size <= SMALL_FILE else ""
        digest.update(f"{file.relative_to(root).as_posix()} {size} {content}\n".encode())
    return digest.hexdigest()
