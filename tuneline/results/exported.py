"""What became of the exported models: the comparison of the stage ``compare``, if it is of the present result, and what to say of it."""

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
    """Return the comparison with the present predictions; ``None`` if there is none, or it is invalid or of other predictions."""
    record = ComparisonRecord.read_if_valid(root / COMPARISON / "comparison.json")
    return record if record and _is_of_present_predictions(root, record) else None


def _is_of_present_predictions(root: Path, record: ComparisonRecord) -> bool:
    """Return True if the models were compared with the present predictions, and these are of the metrics in ``dvc.lock``.

    Git has ``dvc.lock`` and the metrics, and DVC the predictions and the comparison: after ``git checkout``
    alone, or ``dvc repro evaluate``, they are of different results.
    """
    path, lock = root / PREDICTIONS, read_lock(root)
    locked = lock.out(PREDICTIONS.as_posix())
    if not path.exists() or (locked and locked != md5_of(path)):
        return False
    if record.predictions is None:  # an earlier version of Tuneline did not write whose predictions they were
        return locked is not None and locked == lock.dep("compare", PREDICTIONS.as_posix())
    return file_hash(path) == record.predictions


def is_stale(root: Path, comparison: ComparisonRecord | None) -> bool:
    """Return True if a project has a comparison, but ``read_comparison`` returned none: it is of another model than the present one."""
    return comparison is None and (root / COMPARISON / "comparison.json").exists()


def findings(comparison: ComparisonRecord) -> Iterator[Finding]:
    """Yield what a user should know: that nothing is published, or which rounded model was left out, or is published in doubt."""
    stopping = {
        precision: model
        for precision, model in comparison.models.items()
        if model.violations and model.required
    }
    for precision, model in stopping.items():
        sentence = (
            f"There is no published model, because {precision} failed its comparison:"
            f" {'; '.join(model.violations)}."
        )
        yield Finding("nothing published", "bad", sentence, EARLIER_MODEL)
    if stopping:
        return
    for precision, model in comparison.models.items():
        if model.violations:
            sentence = (
                f"The {precision} model is not published, because it differs too much from the trained one:"
                f" {'; '.join(model.violations)}."
            )
            yield Finding(
                f"{precision} left out",
                "warning",
                sentence,
                "The fp32 model is published, and predicts the same as the trained one.",
            )
        elif model.unclear:
            sentence = (
                f"The {precision} model is published, but these rows do not show that it is good enough:"
                f" {'; '.join(model.unclear)}."
            )
            yield Finding(
                f"{precision} unclear", "note", sentence, "fp32 predicts the same as the trained model."
            )
