"""Gathers what a promotion is decided on: figures of the candidate's checkout, and both models' predictions for the same rows."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from ruamel.yaml import YAML

from flows.promotion.gate import Figures, Predictions
from flows.promotion.registry import Registry, Version
from flows.runs.line import Line
from flows.runs.processes import ProgramError
from flows.runs.snapshot import Snapshot, SnapshotError
from flows.scoring.deployed import serve

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
        return Path(Snapshot.of_checkout(self.root).artifact(self.artifact)) / "model.onnx"

    @property
    def split(self) -> str:
        """Name of the reported split."""
        values = YAML(typ="safe", pure=True).load(self.root / "params.yaml") or {}
        return str(values.get("evaluate", {}).get("split", "test"))

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


def predictions(candidate: Candidate, production: Version | None, registry: Registry, line: Line) -> Predictions:
    """What the candidate and the model in production predict for the rows of the candidate's reported split.

    Where the raw splits are the same, byte for byte, production's predictions are those that its own run wrote. Where they
    are not, production's ONNX model predicts the candidate's rows. Where it cannot (its text columns are gone, say), that is
    what stands in the way of a promotion.

    Raises:
        EvidenceError: The candidate's predictions are missing.
    """
    ours = _read(candidate.root / PREDICTIONS)
    if production is None:
        return Predictions(ours.labels, ours.predicted, None, ours.names)
    try:
        theirs = _predictions_of(candidate, production, registry, line, ours)
    except (ProgramError, SnapshotError) as error:
        return Predictions(
            ours.labels,
            ours.predicted,
            None,
            ours.names,
            incomparable=f"{production.name}: {error.reason if isinstance(error, ProgramError) else error}",
        )
    return Predictions(ours.labels, ours.predicted, theirs, ours.names)


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


def _as_ours(predicted: NDArray[Any], theirs: tuple[str, ...] | None, ours: tuple[str, ...] | None) -> NDArray[Any]:
    """Class ids by our names; -1, which is never right, for a class that we do not know."""
    if ours is None or theirs is None or theirs == ours:
        return predicted
    ids = np.array([ours.index(name) if name in ours else -1 for name in theirs], dtype=np.int64)
    return np.asarray(ids[predicted])


def _predictions_of(candidate: Candidate, production: Version, registry: Registry, line: Line, ours: _Table) -> NDArray[Any]:
    place = candidate.root / ".dvc" / "tmp" / f"{production.name}.parquet"
    there, here = Snapshot.of_commit(registry.repository, production.commit), Snapshot.of_checkout(candidate.root)
    if _reported_rows(there) == _reported_rows(here):
        source = ("get", str(registry.repository.root), str(PREDICTIONS), "--rev", production.commit)
        line.dvc(*source, "--out", str(place), "--force", what=f"Fetching the predictions of {production.name}")
        theirs = _read(place)
        return _as_ours(theirs.predicted, theirs.names, ours.names)
    served = serve(registry, production, line)
    rows = candidate.root / "data/raw" / f"{candidate.split}.parquet"
    command = ["tuneline", "predict", str(rows), "--model", str(served.folder), "--output", str(place), "--bad-rows", "stop"]
    line.programs.run(command, f"Predicting the reported split with {production.name}", line.on_line)
    if ours.names is None:
        return np.asarray(pq.read_table(place, columns=["prediction"])["prediction"].to_numpy())
    labels = pq.read_table(place, columns=["label"])["label"].combine_chunks()
    ids = pc.fill_null(pc.index_in(labels, pa.array(ours.names)), -1)
    return np.asarray(ids.to_numpy(zero_copy_only=False).astype(np.int64))


def _reported_rows(line: Snapshot) -> tuple[str | None, Any]:
    """What fixes the rows of ``reports/predictions.parquet``: the raw splits, and which of them is reported."""
    return line.md5("data/raw"), line.parameter("evaluate", "evaluate.split")
