"""Compare the exported models with the trained model on every row of the reported split, and publish those within tolerance.

Reads: ``models/candidates/``; the reported split in ``data/tokenized/`` and ``data/raw/`` (for the text of rows that flip); the
trained model's logits in ``reports/predictions.parquet``. torch is not needed.
Writes, in this order: ``metrics/compare.json``, ``reports/compare/{comparison,flips}.json``, ``models/onnx/``.
A model outside its tolerance is never published. It stops the pipeline, unless ``compare.PRECISION.required`` is false.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from stages.compare.comparison import (
    LogitComparison,
    Logits,
    TrainedLogits,
    Violations,
    check_saturation,
    compare_logits,
    violations_of,
    write_report,
)
from tuneline.core.errors import DataError, GateError
from tuneline.core.files import replace_directory
from tuneline.core.paths import CANDIDATES, COMPARISON, METRICS, ONNX, PREDICTIONS, TOKENIZED
from tuneline.core.records import Metrics
from tuneline.core.stage import require, run_stage
from tuneline.core.tables import SplitReader, numpy_values, read_table
from tuneline.core.terminal import say
from tuneline.model.batches import TokenizedSplit, length_sorted_batches
from tuneline.onnx.session import OnnxClassifier, logits_of
from tuneline.params import CompareParams
from tuneline.params.loading import load_params
from tuneline.reports.evaluation import Saturation
from tuneline.reports.export import EXPORT_RECORD, ExportRecord, ModelRecord

SATURATION_ROWS = 64
"""Most rows of the reported split on which saturated products are counted."""


def compare(
    params: CompareParams, exported: Mapping[str, Logits], saturation: Mapping[str, Saturation], reference: TrainedLogits, seed: int
) -> tuple[dict[str, LogitComparison], Violations]:
    """Compare the logits of every exported model with the trained model's; return comparisons and violated tolerances by precision."""
    comparisons = {
        precision: replace(compare_logits(reference, logits, params.close, seed), saturation=saturation.get(precision))
        for precision, logits in exported.items()
    }
    metric = reference.metric.name
    violations = {precision: violations_of(one, params.tolerance(precision), metric) for precision, one in comparisons.items()}
    return comparisons, violations


def saturation_of(record: ExportRecord, split: TokenizedSplit) -> dict[str, Saturation]:
    """Check the products of the int8 model for saturation, if it was exported."""
    if "int8" not in record.models:
        return {}
    rows = split.take(np.arange(min(SATURATION_ROWS, len(split))))
    batches = (rows.pad(batch, record.pad_token_id) for batch in length_sorted_batches(rows.lengths, 16))
    return {"int8": check_saturation(CANDIDATES / record.models["int8"].file, batches)}


def read_logits(path: Path, rows: int) -> Logits:
    """Read the trained model's logits, float32 of shape ``(rows, outputs)``, in the order of the split.

    Raises:
        DataError: The file does not have exactly one prediction for each row.
    """
    table = read_table(path, ["idx", "logits"])
    idx = numpy_values(table["idx"])
    if not np.array_equal(np.sort(idx), np.arange(rows)):
        raise DataError(f"{path} has not exactly one prediction for each of the {rows} rows.", "Run `dvc repro evaluate`.")
    logits = numpy_values(table["logits"].combine_chunks().flatten()).reshape(rows, -1).astype(np.float32, copy=False)
    return np.asarray(logits[np.argsort(idx)])


def metrics_of(comparisons: Mapping[str, LogitComparison], reference: TrainedLogits, published: Sequence[str]) -> dict[str, float]:
    """Return the metrics for ``metrics/compare.json``, each with its precision as prefix."""
    metrics = {f"trained_{name}": value for name, value in reference.quality(reference.logits).items()}
    for precision, one in comparisons.items():
        metrics |= {f"{precision}_{name}": value for name, value in one.metrics.items()}
        if one.saturation:
            metrics[f"{precision}_can_saturate"] = int(one.saturation.possible)
        metrics[f"{precision}_published"] = int(precision in published)
    return metrics


def publish(record: ExportRecord, metrics: Mapping[str, Mapping[str, float]], split: str) -> None:
    """Fill ``models/onnx`` with the models that passed, those of ``metrics``, and with every file of the candidates that is not a model."""
    models = record.models
    excluded = {file for precision in models if precision not in metrics for file in models[precision].sha256}
    published = {precision: ModelRecord(**{**dict(models[precision]), "metrics": metrics[precision]}) for precision in metrics}
    with replace_directory(ONNX) as folder:
        for path in sorted(CANDIDATES.iterdir()):
            if path.name not in excluded:
                shutil.copyfile(path, folder / path.name)
        record.model_copy(update={"models": published, "split": split}).write(folder / EXPORT_RECORD)


def select_published(violations: Violations, params: CompareParams) -> tuple[list[str], list[str]]:
    """Return the precisions to publish, and the messages that stop the pipeline; with any such message nothing is published."""
    failed = [precision for precision, messages in violations.items() if messages]
    required = [precision for precision in failed if params.tolerance(precision).required]
    stopping = [f"{precision}: {message}" for precision in required for message in violations[precision]]
    return ([] if stopping else [precision for precision in violations if precision not in failed]), stopping


def main() -> dict[str, float]:
    """Compare the exported models with the trained model, write metrics and report, and publish."""
    params = load_params()
    record = ExportRecord.read(require(CANDIDATES / EXPORT_RECORD, "export"))
    split = TokenizedSplit.read(SplitReader.open(TOKENIZED, params.evaluate.split, "tokenize"))
    reference = TrainedLogits(split.labels, split.label_schema, read_logits(require(PREDICTIONS, "evaluate"), len(split)))
    exported = {
        precision: logits_of(OnnxClassifier(CANDIDATES / model.file), split, record.pad_token_id, params.compare.batch_size, precision)
        for precision, model in record.models.items()
    }
    comparisons, violations = compare(params.compare, exported, saturation_of(record, split), reference, params.seed)
    published, stopping = select_published(violations, params.compare)
    Metrics.of(metrics_of(comparisons, reference, published)).write(METRICS / "compare.json")
    write_report(params, comparisons, violations, reference, published)
    if stopping:
        shutil.rmtree(ONNX, ignore_errors=True)  # from an earlier run without DVC, which removes it by itself
        message = "\n  ".join(["an exported model failed its comparison with the trained one.", *stopping])
        raise GateError(message, f"Rows are counted from 0 in the reported split; their text is in {COMPARISON}/flips.json.")
    for precision in sorted(set(comparisons) - set(published)):
        say(f"compare: {precision} is not published: {'; '.join(violations[precision])}", error=True)
    publish(record, {precision: reference.quality(exported[precision]) for precision in published}, params.evaluate.split)
    return {"rows": len(split)}


if __name__ == "__main__":
    run_stage("compare", main)
