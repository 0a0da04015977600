"""Where the model came from: commit, hashes of data, parameters and code, versions of libraries, what the run cost."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneline.cli.report.reading import numbers, read_json
from tuneline.paths import ONNX, RAW, TIMING
from tuneline.repo.history import CLASSIFIER, Commit, Lock, commit_of, git, registered

OUTS = ("data/raw", "data/tokenized", CLASSIFIER, "models/onnx")
STAGES = ("download", "tokenize", "validate", "train", "evaluate", "export", "compare")


@dataclass(frozen=True)
class Provenance:
    """All that is known.

    Attributes:
        commit: That brought this version of the model; ``None`` when it is not committed.
        head: The commit that the working tree stands on.
        changed: Files that differ from it.
        tags: Of the model registry.
        outs: Hash of each out, as ``dvc.lock`` has it.
        params: Every parameter the line ran with, by dotted key, as text.
        code: Hash of each file or folder of code.
        libraries: Versions, of those that made the model.
        source: Where the rows came from.
        stages: Per stage, its figures in ``reports/timing/``.
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
        """One hash over all code."""
        return _hash(self.code)

    @property
    def params_hash(self) -> str:
        """One hash over all parameters."""
        return _hash(self.params)


def provenance(root: Path, lock: Lock) -> Provenance:
    """Gathers it from git, ``dvc.lock``, ``export.json``, ``source.json`` and ``reports/timing/``."""
    version = lock.out(CLASSIFIER)
    commit = commit_of(root, version) if version else None
    record = read_json(root / ONNX / "export.json") or {}
    source = read_json(root / RAW / "source.json") or {}
    timing = {stage: numbers(read_json(root / TIMING / f"{stage}.json")) for stage in STAGES}
    return Provenance(
        commit,
        git(root, "log", "-1", "--format=%h"),
        len(git(root, "status", "--porcelain", "--untracked-files=no").splitlines()),
        registered(root, version, commit) if version and commit else [],
        {path: md5 for path in OUTS if (md5 := lock.out(path))},
        {key: json.dumps(value, ensure_ascii=False) for key, value in sorted(lock.params().items())},
        lock.code(),
        record.get("provenance", {}).get("libraries", {}),
        {key: value for key, value in source.items() if not isinstance(value, (dict, list))},
        {stage: figures for stage, figures in timing.items() if figures},
    )


def _hash(values: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(dict(values), sort_keys=True).encode()).hexdigest()[:12]
