"""What became of the exported models, from the comparison of the stage ``compare``."""

from collections.abc import Iterator
from pathlib import Path

from tuneline.core.hashes import file_hash
from tuneline.core.paths import COMPARISON, ONNX, PREDICTIONS
from tuneline.onnx.records import ComparisonRecord
from tuneline.project.dvc import md5_of, read_lock
from tuneline.results.findings import Finding

OF_ANOTHER_MODEL = "of another model: run `dvc repro`"
EARLIER_MODEL = f"`dvc checkout {ONNX}` brings back the one of dvc.lock."


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
    lock = read_lock(root)
    locked = lock.out(PREDICTIONS.as_posix())
    if locked and locked != md5_of(path):
        return False

    if record.predictions is None:  # an earlier version of Tuneline did not write whose predictions they were
        return locked is not None and locked == lock.dep("compare", PREDICTIONS.as_posix())
    return file_hash(path) == record.predictions


def is_stale(root: Path, comparison: ComparisonRecord | None) -> bool:
    """Return True if the project's comparison is of another model, so that ``comparison`` is ``None``."""
    return comparison is None and (root / COMPARISON / "comparison.json").exists()


def findings(comparison: ComparisonRecord) -> Iterator[Finding]:
    """Yield what a user should know: no published model, or a rounded one left out or published in doubt."""
    nothing_published = False
    for precision, model in comparison.models.items():
        if model.violations and model.required:
            nothing_published = True
            sentence = (
                f"There is no published model, because {precision} failed its comparison:"
                f" {'; '.join(model.violations)}."
            )
            yield Finding("nothing published", "bad", sentence, EARLIER_MODEL)
    if nothing_published:  # then no other model is published, in doubt or not
        return

    for precision, model in comparison.models.items():
        if model.violations:
            sentence = (
                f"The {precision} model is not published, because it differs too much from the trained one:"
                f" {'; '.join(model.violations)}."
            )
            advice = "The fp32 model is published, and predicts the same as the trained one."
            yield Finding(f"{precision} left out", "warning", sentence, advice)
        elif model.unclear:
            sentence = (
                f"The {precision} model is published, but these rows do not show that it is good enough:"
                f" {'; '.join(model.unclear)}."
            )
            advice = "fp32 predicts the same as the trained model."
            yield Finding(f"{precision} unclear", "note", sentence, advice)
