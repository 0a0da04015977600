"""The model that a run made: its measurements, and its predictions beside those of the model in production for the same rows."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from ruamel.yaml import YAML

from flows.promotion.gate import Measurements, Predictions
from flows.promotion.registry import Registry
from flows.runs.pipeline import ArtifactError, Pipeline, PipelineFiles
from flows.runs.processes import ProgramError
from flows.runs.results import read_metrics
from flows.scoring.deployed import fetch_model
from tuneline.errors import DataError
from tuneline.files.schemas import LabelSchema, read_table
from tuneline.files.shards import SplitReader
from tuneline.paths import CHECKS, PARAMS, PREDICTIONS, RAW, TOKENIZED
from tuneline.records.checks import Checks
from tuneline.registry import Version


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
        return Path(PipelineFiles.of_checkout(self.root).artifact(self.artifact)) / "model.onnx"

    @property
    def split(self) -> str:
        """Name of the reported split."""
        values = YAML(typ="safe", pure=True).load(self.root / PARAMS) or {}
        return str(values.get("evaluate", {}).get("split", "test"))


def measure(candidate: Candidate, pipeline: Pipeline) -> Measurements:
    """Collect the values that the policy limits. A value that cannot be had is ``None``, which the gate does not accept."""
    compared = read_metrics(candidate.root, "compare")
    checks = Checks.read_if_exists(candidate.root / CHECKS / "checks.json")
    files = list((candidate.root / candidate.model).parent.glob("model.onnx*"))
    return Measurements(
        agreement=compared.get("fp32_agreement"),
        max_abs_diff=compared.get("fp32_max_abs_diff"),
        checks_passed=checks.passed if checks else None,
        megabytes=sum(file.stat().st_size for file in files) / 2**20 if files else None,
        latency_ms=_latency(candidate, pipeline),
    )


def _latency(candidate: Candidate, pipeline: Pipeline) -> float | None:
    command = [sys.executable, "-P", "-m", "tuneline.onnx.latency", str(candidate.model), str(TOKENIZED), candidate.split]
    try:
        printed = pipeline.programs.run(command, "Measuring the latency of model.onnx", lambda _line: None)
    except ProgramError as error:
        pipeline.on_line(str(error))
        return None
    return float(json.loads(printed[-1])["p95_ms"])


def predictions(candidate: Candidate, production: Version | None, registry: Registry, pipeline: Pipeline) -> Predictions:
    """Return what the candidate and the model in production predict for the rows of the candidate's reported split.

    If both runs have the same raw splits, byte for byte, production's predictions are those that its own run wrote. Else
    production's ONNX model predicts the candidate's rows. If it cannot (its text columns are missing, for example), the result says
    why, and the candidate is not promoted.

    Raises:
        DataError: The candidate's predictions are missing.
    """
    ours = _read(candidate.root / PREDICTIONS)
    if production is None:
        return Predictions(ours.labels, ours.predicted, None, ours.names)
    try:
        theirs = _production_predictions(candidate, production, registry, pipeline, ours)
    except (ProgramError, ArtifactError, DataError) as error:
        reason = error.reason if isinstance(error, ProgramError) else error
        return Predictions(ours.labels, ours.predicted, None, ours.names, incomparable=f"{production.name}: {reason}")
    return Predictions(ours.labels, ours.predicted, theirs, ours.names)


@dataclass(frozen=True)
class _Table:
    labels: NDArray[Any]
    predicted: NDArray[Any]
    names: tuple[str, ...] | None


def _read(path: Path) -> _Table:
    if not path.exists():
        raise DataError(f"{path} is missing: the promotion gate compares predictions.", "Run stage evaluate, which writes them.")
    table = read_table(path, ["idx", "label", "prediction"]).sort_by("idx")
    return _Table(table["label"].to_numpy(), table["prediction"].to_numpy(), LabelSchema.of(table.schema, "label").names)


def _with_our_ids(predicted: NDArray[Any], theirs: tuple[str, ...] | None, ours: tuple[str, ...] | None) -> NDArray[Any]:
    """Translate class ids by class name; a class that the candidate does not have becomes -1, which is always wrong."""
    if ours is None or theirs is None or theirs == ours:
        return predicted
    ids = np.array([ours.index(name) if name in ours else -1 for name in theirs], dtype=np.int64)
    return np.asarray(ids[predicted])


def _production_predictions(
    candidate: Candidate, production: Version, registry: Registry, pipeline: Pipeline, ours: _Table
) -> NDArray[Any]:
    folder = candidate.root / ".dvc" / "tmp"
    there, here = PipelineFiles.of_commit(registry.repository, production.commit), PipelineFiles.of_checkout(candidate.root)
    if there.lock.reported_rows() == here.lock.reported_rows():
        target, what = folder / f"{production.name}.parquet", f"Fetching the predictions of {production.name}"
        pipeline.get(registry.repository, str(PREDICTIONS), production.commit, target, what)
        theirs = _read(target)
        return _with_our_ids(theirs.predicted, theirs.names, ours.names)
    model = fetch_model(registry, production, pipeline)
    predicted = []
    for rows in SplitReader.open(candidate.root / RAW, candidate.split, made_by="download").paths:
        target = folder / f"{production.name}-{rows.name}"
        command = ["tuneline", "predict", str(rows), "--model", str(model.folder), "--output", str(target), "--bad-rows", "stop"]
        pipeline.programs.run(command, f"Predicting {rows.name} with {production.name}", pipeline.on_line)
        predicted.append(_predicted(target, ours.names))
    return np.concatenate(predicted)


def _predicted(path: Path, names: tuple[str, ...] | None) -> NDArray[Any]:
    """Return the numbers or class ids in a file that ``tuneline predict`` wrote; -1 for a class that the candidate does not have."""
    if names is None:
        return np.asarray(read_table(path, ["prediction"])["prediction"].to_numpy())
    ids = pc.fill_null(pc.index_in(read_table(path, ["label"])["label"], pa.array(names)), -1)
    return np.asarray(ids.to_numpy().astype(np.int64))
