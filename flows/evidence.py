"""Gathers what a promotion is decided on: figures of the candidate's checkout, and both models' predictions for the same rows."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from ruamel.yaml import YAML

from flows.gate import Figures, Predictions
from flows.line import Line
from flows.processes import ProgramError
from flows.registry import Version
from flows.repository import Repository

PREDICTIONS = Path("reports/predictions.parquet")
LATENCY = Path(__file__).with_name("latency.py")


class EvidenceError(Exception):
    """The line left something out that a promotion is decided on."""


@dataclass(frozen=True)
class Candidate:
    """The model that a run made, in its checkout.

    Attributes:
        root: The checkout.
        artifact: Name under ``artifacts:`` in its ``dvc.yaml``.
    """

    root: Path
    artifact: str

    @property
    def model(self) -> Path:
        """``model.onnx``, relative to the root."""
        artifacts = _yaml(self.root / "dvc.yaml").get("artifacts", {})
        if self.artifact not in artifacts:
            raise EvidenceError(f"dvc.yaml has no artifact {self.artifact!r}; promotion.artifact in conf/flows.yaml names it.")
        return Path(artifacts[self.artifact]["path"]) / "model.onnx"

    @property
    def split(self) -> str:
        """Name of the reported split."""
        return str(_yaml(self.root / "params.yaml").get("evaluate", {}).get("split", "test"))

    def json(self, path: str) -> dict[str, Any]:
        """A JSON file; empty when it is not there."""
        file = self.root / path
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}


def figures(candidate: Candidate, line: Line) -> Figures:
    """Reads, and measures, what limits are set on. What cannot be had stays ``None``: the gate does not take it as met."""
    compared = candidate.json("metrics/compare.json")
    files = list((candidate.root / candidate.model).parent.glob("model.onnx*"))
    return Figures(
        agreement=compared.get("fp32_agreement"),
        max_abs_diff=compared.get("fp32_max_abs_diff"),
        checks_passed=candidate.json("reports/checks/checks.json").get("passed"),
        megabytes=sum(file.stat().st_size for file in files) / 2**20 if files else None,
        latency_ms=_latency(candidate, line),
    )


def _latency(candidate: Candidate, line: Line) -> float | None:
    rows = Path("data/tokenized") / f"{candidate.split}.parquet"
    command = [sys.executable, "-P", str(LATENCY), str(candidate.model), str(rows)]
    try:
        printed = line.programs.run(command, "Measuring the latency of model.onnx", lambda _line: None)
    except ProgramError as error:
        line.on_line(str(error))
        return None
    return float(json.loads(printed[-1])["p95"])


def predictions(candidate: Candidate, production: Version | None, repository: Repository, line: Line) -> Predictions:
    """What the candidate and the model in production predict for the rows of the candidate's reported split.

    Where the split is the same, byte for byte, production's predictions are those that its own run wrote. Where it is not,
    production's ONNX model predicts the candidate's rows.

    Raises:
        EvidenceError: The candidate's predictions are missing.
        ProgramError: Production's predictions cannot be had, from the cache or the DVC remote.
    """
    ours = _read(candidate.root / PREDICTIONS)
    if production is None:
        return Predictions(ours.labels, ours.predicted, None, ours.names)
    theirs = _fetch(candidate, production, repository, line)
    return Predictions(ours.labels, ours.predicted, _as(theirs, ours.names), ours.names)


@dataclass(frozen=True)
class _Table:
    labels: NDArray[Any]
    predicted: NDArray[Any]
    names: tuple[str, ...] | None


def _read(path: Path) -> _Table:
    if not path.exists():
        raise EvidenceError(f"{path} is missing: a promotion is decided on the predictions that stage evaluate writes.")
    table = pq.read_table(path).sort_by("idx")
    features = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    names = features.get("label", {}).get("names")
    return _Table(table["label"].to_numpy(), table["prediction"].to_numpy(), None if names is None else tuple(names))


def _as(theirs: _Table, names: tuple[str, ...] | None) -> NDArray[Any]:
    """Class ids by our names; -1, which is never right, for a class that we do not know."""
    if names is None or theirs.names is None or theirs.names == names:
        return theirs.predicted
    ours = np.array([names.index(name) if name in names else -1 for name in theirs.names], dtype=np.int64)
    return np.asarray(ours[theirs.predicted])


def _fetch(candidate: Candidate, production: Version, repository: Repository, line: Line) -> _Table:
    place = candidate.root / ".dvc" / "tmp" / f"{production.name}-predictions.parquet"
    if _reported_rows(repository.show(production.commit, "dvc.lock")) != _reported_rows((candidate.root / "dvc.lock").read_text()):
        raise EvidenceError("The reported split is another than that of the model in production.")
    what = f"Fetching the predictions of {production.name}"
    line.dvc("get", str(repository.root), str(PREDICTIONS), "--rev", production.commit, "--out", str(place), "--force", what=what)
    return _read(place)


def _reported_rows(lock: str | None) -> Any:
    """What fixes the rows of ``reports/predictions.parquet``: the raw splits, and which of them is reported."""
    stages = YAML(typ="safe", pure=True).load(lock or "{}").get("stages", {})
    data = [out.get("md5") for stage in stages.values() for out in stage.get("outs", []) if out["path"] == "data/raw"]
    chosen = stages.get("evaluate", {}).get("params", {}).get("params.yaml", {}).get("evaluate.split")
    return data, chosen


def _yaml(path: Path) -> dict[str, Any]:
    return dict(YAML(typ="safe", pure=True).load(path) or {})
