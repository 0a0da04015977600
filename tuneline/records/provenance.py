"""Provenance of a stage: the parameters, code, libraries and devices that its outs were made with.

``download``, ``tokenize`` and ``train`` write theirs beside their outs, and ``export`` puts them into the record of the model. A file
of its own, because a changed comment in the code of ``download`` changes its provenance but not the data, so nothing is trained again.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from tuneline.errors import StageError
from tuneline.files.hashes import file_hash
from tuneline.params.loading import read_yaml
from tuneline.paths import PARAMS, PROVENANCE
from tuneline.records.record import OMITTED, Record
from tuneline.records.source import AppliedCorrections

ROOT = Path(__file__).parents[2]
"""Root of the project that this code is part of."""
CODE = ("project", "stages", "tuneline")
"""Packages that contain the code of the pipeline, and the user's losses and metrics."""


class TrainingSegment(Record):
    """A part of a training with one layout. Sums are rounded alike in it: the bytes of a model repeat only if there is no other."""

    step: int
    """Optimizer steps that were done before it."""
    device: str
    """Type of the device, as torch names it."""
    processes: int
    micro_batch_size: int
    threads: int | None = OMITTED
    """Threads of each process, on a CPU."""

    def __str__(self) -> str:
        threads = f" with {self.threads} thread{'s' * (self.threads != 1)}" if self.threads else ""
        return f"{self.processes} process{'es' * (self.processes != 1)}{threads} ({self.device}, micro_batch_size {self.micro_batch_size})"

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
    """Parts of a training that was resumed with another layout. Its bytes are not promised to repeat."""

    def __str__(self) -> str:
        precision = "float32" if self.precision == "no" else self.precision
        several = f", {self.processes} processes ({self.distribution})" if self.processes > 1 else ""
        parts = "; ".join(f"from step {segment.step} {segment}" for segment in self.segments or ())
        return f"{self.type}, {precision}{several}" + (f"; layout changed, so bytes need not repeat: {parts}" if parts else "")


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
    """Return the provenance of a stage, with the parameters of the current folder.

    Args:
        stage: Name of the stage in ``dvc.yaml``, which lists its parameters and its code.
        libraries: Names of the libraries whose versions are recorded.
        root: Folder with ``dvc.yaml`` and the code.
        devices: Devices of a training.
        corrections: Corrections of the data.

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
        return {key: reduce(lambda section, name: section[name], key.split("."), values) for key in sorted(keys)}
    except KeyError as error:
        raise StageError(f"dvc.yaml lists a parameter that params.yaml does not have: {error}.", "Correct one of the two.") from None


def parameters_hash(stages: Mapping[str, StageProvenance]) -> str:
    """Return one SHA-256 over the parameters of several stages."""
    values = {name: dict(stage.parameters) for name, stage in stages.items()}
    return hashlib.sha256(json.dumps(values, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def code_hash(root: Path, paths: Sequence[str]) -> str:
    """Return one SHA-256 over the names and bytes of Python files, also those inside folders, in the order of their names.

    Raises:
        StageError: A path does not exist.
    """
    if missing := [path for path in paths if not (root / path).exists()]:
        raise StageError(f"dvc.yaml lists {missing[0]} in deps, but it does not exist.", "Correct the path, or remove it.")
    files = {file for path in paths for file in ((root / path).rglob("*.py") if (root / path).is_dir() else [root / path])}
    lines = [f"{file_hash(file)}  {file.relative_to(root).as_posix()}\n" for file in sorted(files)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def split_hash(files: Sequence[Path]) -> str:
    """Return one SHA-256 for the files of a split, as ``split_files`` gives them: the file's own, if it is the only one.

    That of shards is what ``sha256sum train-*.parquet | sha256sum`` prints: a hash of their hashes and names.
    """
    if len(files) == 1:
        return file_hash(files[0])
    return hashlib.sha256("".join(f"{file_hash(file)}  {file.name}\n" for file in files).encode()).hexdigest()
