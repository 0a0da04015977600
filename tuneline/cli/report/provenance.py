"""Provenance of the model: commit, hashes of data, parameters and code, library versions, duration of the stages."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneline.paths import ONNX, RAW, TIMING
from tuneline.records.export import EXPORT_RECORD, ExportRecord
from tuneline.records.metrics import Metrics
from tuneline.records.source import RawSource
from tuneline.repo import CLASSIFIER, Commit, Lock, commit_of, git, registered

OUTS = ("data/raw", "data/tokenized", CLASSIFIER, "models/onnx")


@dataclass(frozen=True)
class Provenance:
    """Provenance of the model.

    Attributes:
        commit: The commit that added this version of the model; ``None`` if it is not committed.
        head: Short hash of HEAD.
        changed: Number of files in the working tree that differ from HEAD.
        tags: Names of the model in the registry.
        outs: Hash in ``dvc.lock`` by out.
        params: Every parameter of the run as JSON text, by dotted key.
        code: Hash by file or folder of code.
        libraries: Versions of the libraries that created the model.
        source: ``data/raw/source.json`` without nested values.
        stages: Measurements in ``reports/timing/`` by stage.
    """

    commit: Commit | None
    head: str
    changed: int
    tags: list[str]
    outs: Mapping[str, str]
    params: Mapping[str, str]
    code: Mapping[str, str]
    libraries: Mapping[str, str]
    source: Mapping[str, Any]
    stages: Mapping[str, Mapping[str, float]]

    @property
    def code_hash(self) -> str:
        """Hash of all code."""
        return _hash(self.code)

    @property
    def params_hash(self) -> str:
        """Hash of all parameters."""
        return _hash(self.params)


def read_provenance(root: Path, lock: Lock) -> Provenance:
    """Read git, ``dvc.lock``, ``export.json``, ``source.json`` and ``reports/timing/``."""
    version = lock.out(CLASSIFIER)
    commit = commit_of(root, version) if version else None
    record = ExportRecord.read_if_exists(root / ONNX / EXPORT_RECORD)
    source = RawSource.read_if_valid(root / RAW / "source.json")
    timing = {stage: Metrics.read_values(root / TIMING / f"{stage}.json") for stage in lock.stages}
    return Provenance(
        commit,
        git(root, "log", "-1", "--format=%h"),
        len(git(root, "status", "--porcelain", "--untracked-files=no").splitlines()),
        registered(root, version, commit) if version and commit else [],
        {path: md5 for path in OUTS if (md5 := lock.out(path))},
        {key: json.dumps(value, ensure_ascii=False) for key, value in sorted(lock.params().items())},
        lock.code(),
        record.provenance.libraries if record else {},
        source.facts if source else {},
        {stage: measured for stage, measured in timing.items() if measured},
    )


def _hash(values: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(dict(values), sort_keys=True).encode()).hexdigest()[:12]
