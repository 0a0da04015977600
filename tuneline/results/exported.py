"""The comparison of the exported models with the trained one, if it is of the present one."""

from pathlib import Path

from tuneline.core.hashes import file_hash
from tuneline.onnx.comparison_records import ComparisonRecord
from tuneline.paths import COMPARISON, PREDICTIONS
from tuneline.repository.dvc import md5_of, read_lock


def read_comparison(root: Path) -> ComparisonRecord | None:
    """Return the comparison with the present predictions; ``None`` if it is missing, invalid or of others."""
    record = ComparisonRecord.read_if_valid(root / COMPARISON / "comparison.json")
    if record is None or not _is_of_present_predictions(root, record):
        return None
    return record


def _is_of_present_predictions(root: Path, record: ComparisonRecord) -> bool:
    """Return True if the models were compared with the present predictions.

    The predictions must be the ones of the metrics in ``dvc.lock``, too.

    Git has ``dvc.lock`` and the metrics, and DVC the predictions and the comparison: after ``git checkout``
    alone, or ``dvc repro evaluate``, they are of different results.
    """
    path = root / PREDICTIONS
    if not path.exists():
        return False
    locked = read_lock(root).out(PREDICTIONS.as_posix())
    if locked and locked != md5_of(path):
        return False

    return file_hash(path) == record.predictions


def is_stale(root: Path, comparison: ComparisonRecord | None) -> bool:
    """Return True if the project's comparison is of another model, so that ``comparison`` is ``None``."""
    return comparison is None and (root / COMPARISON / "comparison.json").exists()
