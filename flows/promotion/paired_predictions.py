"""What the candidate and the model in production predict for the same rows.

The promotion gate compares them on the candidate's reported split, and on its validation rows.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.promotion.production import fetch_model
from flows.promotion.registry import Registry
from flows.runs.pipeline import Pipeline
from flows.runs.processes import ProgramError
from tuneline.core.tables import SplitReader, read_table
from tuneline.core.yaml_files import read_yaml
from tuneline.paths import PARAMS, PREDICTIONS, RAW, VALIDATION_PREDICTIONS
from tuneline.predictions.files import Predictions, read_predictions
from tuneline.repository.dvc import Lock, read_lock
from tuneline.repository.git import ArtifactError, lock_at
from tuneline.repository.registry import Version
from tuneline.runtime.errors import DataError
from tuneline.tasks import Task
from tuneline.tasks.columns import encoded_predictions

VALIDATION = "validation"
"""Name of the split that chooses epochs, thresholds and temperatures."""


@dataclass(frozen=True)
class PairedPredictions:
    """Predictions of two models for the rows of one split of the candidate, each of shape ``(rows,)``.

    Attributes:
        labels: Class ids or numbers.
        production: Predictions of the model in production; ``None`` if there is none.
        incomparable: Reason why the model in production cannot predict these rows; ``None`` if it can.
        clusters: Cluster of each row, from 0; ``None``: each row is on its own.
    """

    labels: NDArray[Any]
    candidate: NDArray[Any]
    production: NDArray[Any] | None
    task: Task
    incomparable: str | None = None
    clusters: NDArray[Any] | None = None


def reported_split(root: Path) -> str:
    """Return the name of the split that a checkout reports its metrics on."""
    params = read_yaml(root / PARAMS) or {}
    return str(params.get("evaluate", {}).get("split", "test"))


def paired_predictions(
    pipeline: Pipeline, registry: Registry, production: Version | None
) -> PairedPredictions:
    """Return the predictions of both models for the rows of the candidate's reported split.

    If both runs have the same raw splits, byte for byte, production's predictions are those that its own run
    wrote. Else production's ONNX model predicts the candidate's rows. If it cannot (its text columns are
    missing, for example), the result says why, and the candidate is not promoted.

    Raises:
        DataError: The candidate's predictions are missing.
    """
    path = pipeline.programs.cwd / PREDICTIONS
    if not path.exists():
        raise DataError(
            f"{path} is missing: the promotion gate compares predictions.",
            "Run stage evaluate, which writes them.",
        )
    split = reported_split(pipeline.programs.cwd)
    return _paired(pipeline, registry, production, PREDICTIONS, split)


def validation_predictions(
    pipeline: Pipeline, registry: Registry, production: Version
) -> PairedPredictions | None:
    """Return the predictions of both models for the candidate's validation rows, as of its reported split.

    Returns:
        ``None`` if they are the reported split, or the candidate's run has not predicted them.
    """
    root = pipeline.programs.cwd
    if reported_split(root) == VALIDATION or not (root / VALIDATION_PREDICTIONS).exists():
        return None
    return _paired(pipeline, registry, production, VALIDATION_PREDICTIONS, VALIDATION)


def _paired(
    pipeline: Pipeline,
    registry: Registry,
    production: Version | None,
    path: Path,
    split: str,
) -> PairedPredictions:
    """Return the predictions of both models for a split, of which the candidate's run has written a file."""
    candidate = read_predictions(pipeline.programs.cwd / path)
    predictions = PairedPredictions(
        candidate.labels, candidate.values, None, candidate.task, clusters=candidate.clusters
    )
    if production is None:
        return predictions

    try:
        # The same rows: production's own run has predicted them.
        theirs = lock_at(registry.repository.root, production.commit)
        if _has_same_rows(theirs, read_lock(pipeline.programs.cwd), path):
            fetched = _fetched(pipeline, registry, production, path)
            values = fetched.translated(candidate.task).values
        else:
            values = _predicted(pipeline, registry, production, split, candidate.task)
    except ProgramError as error:
        return replace(predictions, incomparable=f"{production.name}: {error.reason}")
    except (ArtifactError, DataError) as error:
        return replace(predictions, incomparable=f"{production.name}: {error}")
    return replace(predictions, production=values)


def _has_same_rows(theirs: Lock, ours: Lock, path: Path) -> bool:
    """Return True if the file of predictions is of the same rows in two runs."""
    if path == PREDICTIONS:
        return theirs.reported_rows() == ours.reported_rows()
    is_there = theirs.out(path.as_posix()) is not None
    return is_there and theirs.out(RAW.as_posix()) == ours.out(RAW.as_posix())


def _fetched(pipeline: Pipeline, registry: Registry, production: Version, path: Path) -> Predictions:
    """Return the predictions that production's own run wrote."""
    target = pipeline.programs.cwd / ".dvc" / "tmp" / f"{production.name}-run-{path.name}"
    message = f"Fetching {path.name} of {production.name}"
    pipeline.get(registry.repository, str(path), production.commit, target, message)
    return read_predictions(target)


def _predicted(
    pipeline: Pipeline, registry: Registry, production: Version, split: str, task: Task
) -> NDArray[Any]:
    """Let production's model predict a raw split of the candidate."""
    root = pipeline.programs.cwd
    model = fetch_model(registry, production, pipeline)
    parts = []
    for rows in SplitReader.open(root / RAW, split, made_by="download").paths:
        target = root / ".dvc" / "tmp" / f"{production.name}-{rows.name}"
        command = ["tuneline", "predict", str(rows)]
        command += ["--model", str(model.folder), "--output", str(target), "--bad-rows", "stop", "--plain"]
        message = f"Predicting {rows.name} with {production.name}"
        pipeline.programs.run(command, message, pipeline.on_line)
        column = task.prediction_column
        parts.append(encoded_predictions(task, read_table(target, [column])[column]))
    return np.concatenate(parts)
