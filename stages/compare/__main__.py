"""Compare the exported models with the trained model on every row of the reported split, and publish those within tolerance.

Reads: ``models/candidates/``; the reported split in ``data/tokenized/`` and ``data/raw/`` (for the text of
rows that flip); the trained model's logits in ``reports/predictions.parquet``. torch is not needed. Writes,
in this order: ``metrics/compare.json``, ``reports/compare/{comparison,flips}.json``, ``models/onnx/``. A
model outside its tolerance is never published. It stops the pipeline if ``compare.PRECISION.required`` is
true, as it always is for fp32.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from stages.compare.logits import LogitComparison, Logits, TrainedLogits, compare_logits
from stages.compare.saturation import check_saturation
from stages.compare.tolerance import ToleranceJudgement, judge_comparison
from tuneline.core.atomic_files import replace_directory
from tuneline.core.errors import DataError, GateError
from tuneline.core.hashes import file_hash
from tuneline.core.paths import CANDIDATES, COMPARISON, METRICS, ONNX, PREDICTIONS, RAW, TOKENIZED
from tuneline.core.records import Metrics
from tuneline.core.stage import require, run_stage
from tuneline.core.tables import SplitReader, numpy_values, read_table
from tuneline.core.terminal import say
from tuneline.model.batches import TokenizedSplit, length_sorted_batches
from tuneline.onnx.records import (
    EXPORT_RECORD,
    ComparisonRecord,
    ExportRecord,
    Flip,
    Flips,
    ModelComparison,
    ModelRecord,
    Prediction,
    Saturation,
)
from tuneline.onnx.session import OnnxClassifier, logits_of
from tuneline.params import CompareParams, Params
from tuneline.params.loading import load_params

LIMIT = 100
"""Flipped rows written per model: those whose logits differ most."""
ToleranceJudgements = Mapping[str, ToleranceJudgement]
"""Whether each model is within its tolerance, by precision."""


def write_comparison_files(
    params: Params,
    comparisons: Mapping[str, LogitComparison],
    judgements: ToleranceJudgements,
    reference: TrainedLogits,
    published: Sequence[str],
) -> None:
    """Write ``comparison.json`` and ``flips.json``; all mappings are by precision."""
    raw = SplitReader.open(RAW, params.evaluate.split, made_by="download")
    models, flips = {}, {}
    for precision, comparison in comparisons.items():
        judgement = judgements[precision]
        facts = {
            "saturation": comparison.saturation,
            "violations": judgement.violations,
            "unclear": judgement.unclear or None,
            "required": params.compare.tolerance(precision).required,
            "published": precision in published,
        }
        models[precision] = ModelComparison.model_validate({**comparison.metrics, **facts})
        flips[precision] = describe_flips(comparison, reference, raw, params.data.text_columns)
    report = ComparisonRecord(
        split=params.evaluate.split,
        rows=len(reference.labels),
        metric=reference.metric.name,
        predictions=file_hash(PREDICTIONS),
        trained=reference.quality(reference.logits),
        models=models,
    )
    with replace_directory(COMPARISON) as folder:
        report.write(folder / "comparison.json")
        Flips.model_validate(flips).write(folder / "flips.json")


def describe_flips(
    comparison: LogitComparison, reference: TrainedLogits, raw: SplitReader, text_columns: Sequence[str]
) -> list[Flip]:
    """Return one entry for each flipped row, the largest difference first, at most ``LIMIT``, with its text in the raw split."""
    positions = comparison.flipped[:LIMIT]
    order = np.argsort(positions)
    texts = raw.take(positions[order], text_columns).take(np.argsort(order)).to_pylist()
    labels = reference.labels[positions].tolist()
    return [
        Flip(
            row=int(position),
            text=text,
            label=reference.task.label_value(label),
            trained=_prediction(reference, reference.logits, position),
            exported=_prediction(reference, comparison.logits, position),
            difference=float(comparison.difference[position]),
        )
        for position, text, label in zip(positions, texts, labels, strict=True)
    ]


def _prediction(reference: TrainedLogits, logits: Logits, position: int) -> Prediction:
    row, task = logits[position : position + 1], reference.task
    (prediction,) = task.predictions(row)
    probability = task.confidence(row)
    value = task.label_value(prediction)
    return (
        Prediction(prediction=value)
        if probability is None
        else Prediction(prediction=value, probability=probability)
    )


SATURATION_ROWS = 64
"""Most rows of the reported split on which saturated products are counted."""


def compare_exports(
    params: CompareParams,
    exported: Mapping[str, Logits],
    saturation: Mapping[str, Saturation],
    reference: TrainedLogits,
    seed: int,
) -> tuple[dict[str, LogitComparison], ToleranceJudgements]:
    """Compare the logits of every exported model with the trained model's, and judge them; return both by precision."""
    comparisons, judgements = {}, {}
    for precision, logits in exported.items():
        comparison = replace(
            compare_logits(reference, logits, params.close_rmse, seed), saturation=saturation.get(precision)
        )
        is_exact = precision == "fp32"
        comparisons[precision] = comparison
        judgements[precision] = judge_comparison(
            comparison, params.tolerance(precision), reference.metric.name, is_exact
        )
    return comparisons, judgements


def saturation_of(record: ExportRecord, split: TokenizedSplit) -> dict[str, Saturation]:
    """Check the products of the int8 model for saturation, if it was exported."""
    if "int8" not in record.models:
        return {}
    rows = split.take(np.arange(min(SATURATION_ROWS, len(split))))
    batches = (rows.pad(batch, record.pad_token_id) for batch in length_sorted_batches(rows.lengths, 16))
    return {"int8": check_saturation(CANDIDATES / record.models["int8"].file, batches)}


def read_logits(path: Path, rows: int) -> Logits:
    """Read the trained model's logits, float32 ``(rows, outputs)``, in the order of the split; there must be one for each row."""
    table = read_table(path, ["idx", "logits"])
    idx = numpy_values(table["idx"])
    if not np.array_equal(np.sort(idx), np.arange(rows)):
        raise DataError(
            f"{path} has not exactly one prediction for each of the {rows} rows.", "Run `dvc repro evaluate`."
        )
    logits = (
        numpy_values(table["logits"].combine_chunks().flatten())
        .reshape(rows, -1)
        .astype(np.float32, copy=False)
    )
    return np.asarray(logits[np.argsort(idx)])


def comparison_metrics(
    comparisons: Mapping[str, LogitComparison], reference: TrainedLogits, published: Sequence[str]
) -> dict[str, float]:
    """Return the metrics for ``metrics/compare.json``, each with its precision as prefix."""
    metrics = {f"trained_{name}": value for name, value in reference.quality(reference.logits).items()}
    for precision, comparison in comparisons.items():
        metrics |= {f"{precision}_{name}": value for name, value in comparison.metrics.items()}
        if comparison.saturation:
            metrics[f"{precision}_can_saturate"] = int(comparison.saturation.possible)
        metrics[f"{precision}_published"] = int(precision in published)
    return metrics


def publish_passed(
    record: ExportRecord,
    metrics: Mapping[str, Mapping[str, float]],
    left_out: Mapping[str, Sequence[str]],
    split: str,
) -> None:
    """Fill ``models/onnx`` with the models that passed, those of ``metrics``, and with every file of the candidates that is not a model.

    ``left_out`` has the reasons of the others.
    """
    models = record.models
    excluded = {file for precision in models if precision not in metrics for file in models[precision].sha256}
    published = {
        precision: ModelRecord(**{**dict(models[precision]), "metrics": metrics[precision]})
        for precision in metrics
    }
    with replace_directory(ONNX) as folder:
        for path in sorted(CANDIDATES.iterdir()):
            if path.name not in excluded:
                shutil.copyfile(path, folder / path.name)
        update = {"models": published, "left_out": left_out or None, "split": split}
        record.model_copy(update=update).write(folder / EXPORT_RECORD)


def select_published(judgements: ToleranceJudgements, params: CompareParams) -> tuple[list[str], list[str]]:
    """Return the precisions to publish, and the messages that stop the pipeline; with any such message nothing is published."""
    published, stopping = [], []
    for precision, judgement in judgements.items():
        if not judgement.violations:
            published.append(precision)
        elif params.tolerance(precision).required:
            stopping += [f"{precision}: {message}" for message in judgement.violations]
    return ([] if stopping else published), stopping


def way_on(stopping: Sequence[str]) -> str:
    """Return what a user can do after a comparison that stopped the pipeline."""
    if any(message.startswith("fp32: ") for message in stopping):
        remedy = "Try another export.opset; or widen compare.fp32 if this difference is acceptable."
    else:
        remedy = (
            "Set compare.int8.required (or fp16.required) to false, and the fp32 model is published"
            " without it."
        )
    return (
        f"Rows are counted from 0 in the reported split; their text is in {COMPARISON}/flips.json. {remedy}"
        f" {ONNX} is empty until then: `dvc checkout {ONNX}` brings back the model of dvc.lock, `git checkout"
        f" COMMIT dvc.lock && dvc checkout {ONNX}` that of a commit."
    )


def main() -> dict[str, float]:
    """Compare the exported models with the trained model, write metrics and report, and publish."""
    params = load_params()
    record = ExportRecord.read(require(CANDIDATES / EXPORT_RECORD, "export"))
    split = TokenizedSplit.read(SplitReader.open(TOKENIZED, params.evaluate.split, "tokenize"))
    reference = TrainedLogits(
        split.labels, split.task, read_logits(require(PREDICTIONS, "evaluate"), len(split))
    )
    size = params.compare.batch_size
    exported = {
        precision: logits_of(
            OnnxClassifier.exported(CANDIDATES, precision), split, record.pad_token_id, size, precision
        )
        for precision in record.models
    }
    comparisons, judgements = compare_exports(
        params.compare, exported, saturation_of(record, split), reference, params.seed
    )
    published, stopping = select_published(judgements, params.compare)
    Metrics.of(comparison_metrics(comparisons, reference, published)).write(METRICS / "compare.json")
    write_comparison_files(params, comparisons, judgements, reference, published)
    if stopping:
        shutil.rmtree(ONNX, ignore_errors=True)  # from an earlier run without DVC, which removes it by itself
        message = "\n  ".join(["an exported model failed its comparison with the trained one.", *stopping])
        raise GateError(message, way_on(stopping))
    left_out = {}
    for precision, judgement in judgements.items():
        if judgement.violations:
            left_out[precision] = judgement.violations
            say(f"compare: {precision} is not published: {'; '.join(judgement.violations)}", error=True)
        elif judgement.unclear:
            say(
                f"compare: {precision} is published, although these rows do not show that it is good enough:"
                f" {'; '.join(judgement.unclear)}"
            )
    metrics = {precision: reference.quality(exported[precision]) for precision in published}
    publish_passed(record, metrics, left_out, params.evaluate.split)
    return {"rows": len(split)}


if __name__ == "__main__":
    run_stage("compare", main)
