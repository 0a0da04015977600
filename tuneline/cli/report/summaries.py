"""Summaries of what stages and git recorded: data checks, metrics by slice, and the provenance of the model."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Self

from tuneline.paths import BASE_RECORD, CHECKS, ONNX, RAW, REPORTS, TIMING
from tuneline.records.checks import CheckEntry, Checks
from tuneline.records.evaluation import SliceMetrics, Slices
from tuneline.records.export import EXPORT_RECORD, ExportRecord
from tuneline.records.metrics import Metrics
from tuneline.records.source import BaseSource, RawSource
from tuneline.repo import CLASSIFIER, Commit, Lock, commit_of, git, registered

OUTS = ("data/raw", "data/tokenized", CLASSIFIER, "models/onnx")


@dataclass(frozen=True)
class ChecksSummary:
    """Results of all data checks.

    Attributes:
        entries: Results of all checks.
        has_page: True if ``reports/checks/index.html`` exists.
    """

    entries: list[CheckEntry]
    has_page: bool

    @classmethod
    def read(cls, root: Path) -> Self | None:
        """Summarize ``reports/checks/checks.json``; ``None`` if it is missing or invalid."""
        record = Checks.read_if_valid(root / CHECKS / "checks.json")
        return cls(list(record.checks), (root / CHECKS / "index.html").is_file()) if record else None

    @property
    def total(self) -> int:
        """Number of results."""
        return len(self.entries)

    @property
    def failed(self) -> list[CheckEntry]:
        """Failed checks, those that stop the pipeline first."""
        return sorted((entry for entry in self.entries if entry.status != "passed"), key=lambda entry: not entry.stops)

    @property
    def counts(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Number of passed and of all checks, by checked table and split."""
        counts: dict[str, dict[str, tuple[int, int]]] = {}
        for entry in self.entries:
            by_split = counts.setdefault(entry.table, {})
            passed, total = by_split.get(entry.split, (0, 0))
            by_split[entry.split] = (passed + (entry.status == "passed"), total + 1)
        return counts

    @property
    def splits(self) -> list[str]:
        """The checked splits."""
        return list(dict.fromkeys(split for by_split in self.counts.values() for split in by_split))


@dataclass(frozen=True)
class SlicesSummary:
    """Metric of all slices, and the axis on which it is drawn.

    Attributes:
        record: Metrics by slice, of at least one slice.
        floor: Lower end of the axis; the upper end is 1.
    """

    record: Slices
    floor: float

    @classmethod
    def read(cls, root: Path) -> Self | None:
        """Read ``reports/slices.json``; ``None`` if it is missing, invalid or empty."""
        record = Slices.read_if_valid(root / REPORTS / "slices.json")
        if record is None or not record.slices:
            return None
        lowest = min(one.low for one in record.slices)
        return cls(record, max(-1.0, int(lowest * 10 - (lowest < 0)) / 10))

    @property
    def groups(self) -> dict[str, list[SliceMetrics]]:
        """The slices by the property that defines them, such as ``length``."""
        return {by: list(group) for by, group in groupby(self.record.slices, key=lambda one: one.by)}

    def position(self, value: float) -> float:
        """Return the position of a value on the axis, in percent."""
        return 100 * min(max((value - self.floor) / (1.0 - self.floor), 0), 1)


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
        base: Origin of the base model and the tokenizer.
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
    base: BaseSource | None
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
        BaseSource.read_if_valid(root / BASE_RECORD),
        {stage: measured for stage, measured in timing.items() if measured},
    )


def _hash(values: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(dict(values), sort_keys=True).encode()).hexdigest()[:12]
