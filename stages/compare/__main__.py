"""Compare the exported models with the trained model on every row of the reported split, and publish those within tolerance.

Reads: ``models/candidates/``; the reported split in ``data/tokenized/`` and ``data/raw/`` (for the text of rows that flip); the
trained model's logits in ``reports/predictions.parquet``. torch is not needed.
Writes, in this order: ``metrics/compare.json``, ``reports/compare/{comparison,flips}.json``, ``models/onnx/``.
A model outside its tolerance is never published. It stops the pipeline, unless ``compare.PRECISION.required`` is false.
"""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tuneline.core.errors import DataError, GateError
from tuneline.core.files import replace_directory
from tuneline.core.paths import CANDIDATES, COMPARISON, METRICS, ONNX, PREDICTIONS, RAW, TOKENIZED
from tuneline.core.records import Metrics
from tuneline.core.stage import require, run_stage
from tuneline.core.tables import LabelSchema, SplitReader, numpy_values, read_table
from tuneline.core.terminal import say
from tuneline.metrics.curves import Softmax, calibration, calibration_error, probabilities
from tuneline.metrics.scores import compute_metric, predictions_of, task_of
from tuneline.metrics.stats import Interval, accuracy_drop_interval, paired_difference
from tuneline.metrics.table import Metric, primary_metric
from tuneline.model.batches import Batch, TokenizedSplit, length_sorted_batches
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
from tuneline.onnx.session import OnnxClassifier, logits_of, run_outputs
from tuneline.params import CompareParams, Params
from tuneline.params.evaluate import Int8Tolerance, Tolerance
from tuneline.params.loading import load_params

Logits = NDArray[np.float32]
LARGEST_SUM = 32_767
LARGEST_ACTIVATION = 255
COLUMNS_AT_A_TIME = 4096


@dataclass(frozen=True)
class IntegerProduct:
    """Matrix product of a named uint8 tensor, shape ``(..., inputs)``, and constant int8 weights of shape ``(inputs, outputs)``."""

    activations: str
    weights: NDArray[np.int8]


def check_saturation(path: Path, batches: Iterable[Batch]) -> Saturation:
    """Bound the products of a quantized model; where the bound does not exclude saturation, count it on padded batches of model inputs."""
    model = onnx.load(path)
    products = integer_products(model.graph)
    largest = max((largest_pair_sum(product.weights) for product in products), default=0)
    if largest <= LARGEST_SUM:
        return Saturation(possible=False, largest_sum=largest, sums=0, saturated=0)
    sums = saturated = 0
    for batch in batches:
        activations = run_outputs(model, [product.activations for product in products], batch)
        for product, values in zip(products, activations, strict=True):
            rows = values.reshape(-1, values.shape[-1])
            sums += len(rows) * ((product.weights.shape[0] + 1) // 2) * product.weights.shape[1]
            saturated += count_saturated(rows, product.weights)
    return Saturation(possible=True, largest_sum=largest, sums=sums, saturated=saturated)


def violation_of(saturation: Saturation) -> str:
    """Return the message for a model that may not saturate."""
    return (
        f"two of its products add up to {saturation.largest_sum:,}, more than 16 bits hold ({LARGEST_SUM:,}): on a processor without VNNI "
        f"its predictions can be wrong (here {saturation.saturated:,} of {saturation.sums:,} sums would be clipped); set "
        "export.int8.reduce_range: true, or accept it with compare.int8.allow_saturation: true"
    )


def largest_pair_sum(weights: NDArray[np.int8]) -> int:
    """Return the largest magnitude of ``a * v + b * w`` for two weights of one output and ``0 <= a, b <= 255``.

    Which weights are neighbours depends on how the kernel packs them, so any two count.
    """
    ordered = np.sort(weights.astype(np.int64), axis=0)
    highest = np.maximum(ordered[-2:], 0).sum(axis=0).max()
    lowest = np.minimum(ordered[:2], 0).sum(axis=0).min()
    return int(LARGEST_ACTIVATION * max(highest, -lowest))


def count_saturated(activations: NDArray[np.uint8], weights: NDArray[np.int8]) -> int:
    """Count the sums of two neighbouring products that exceed 16 bits: activations ``(rows, inputs)``, weights ``(inputs, outputs)``."""
    if len(weights) % 2:
        activations, weights = np.pad(activations, ((0, 0), (0, 1))), np.pad(weights, ((0, 1), (0, 0)))
    first, second = weights[0::2].astype(np.int32), weights[1::2].astype(np.int32)
    highest = np.maximum(first, 0) + np.maximum(second, 0)
    lowest = np.minimum(first, 0) + np.minimum(second, 0)
    # Most pairs of weights are too small to saturate with any activations: only the others are multiplied.
    pairs, outputs = np.nonzero(LARGEST_ACTIVATION * np.maximum(highest, -lowest) > LARGEST_SUM)
    left, right = activations[:, 0::2].astype(np.int32), activations[:, 1::2].astype(np.int32)
    count = 0
    for start in range(0, len(pairs), COLUMNS_AT_A_TIME):
        pair, output = pairs[start : start + COLUMNS_AT_A_TIME], outputs[start : start + COLUMNS_AT_A_TIME]
        sums = left[:, pair] * first[pair, output] + right[:, pair] * second[pair, output]
        count += int(np.count_nonzero((sums > LARGEST_SUM) | (sums < -LARGEST_SUM - 1)))
    return count


def integer_products(graph: onnx.GraphProto) -> list[IntegerProduct]:
    """Find the matrix products that ONNX Runtime computes in 8 bits; refuse a form that the stage ``export`` does not write.

    These are ``MatMulInteger`` (dynamic quantization), and ``MatMul`` and ``Gemm`` of two ``DequantizeLinear`` nodes (static
    quantization), which ONNX Runtime fuses when it loads the model.
    """
    constants = {tensor.name: tensor for tensor in graph.initializer}
    quantized = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "DequantizeLinear"}
    products = []
    for node in graph.node:
        if node.op_type == "MatMulInteger":
            activations, weights = node.input[0], node.input[1]
        elif node.op_type in {"MatMul", "Gemm"} and node.input[0] in quantized and node.input[1] in quantized:
            activations, weights = quantized[node.input[0]], quantized[node.input[1]]
        elif node.op_type in {"QLinearMatMul", "QGemm", "DynamicQuantizeMatMul", "MatMulIntegerToFloat"}:
            raise ValueError(f"{node.op_type} {node.name!r} is not a product that the stage export writes")
        else:
            continue
        if weights not in constants:
            continue  # two activations: kernels for two unsigned factors widen them to 16 bits before they multiply
        values = onnx.numpy_helper.to_array(constants[weights])
        if values.dtype != np.int8:
            raise ValueError(f"{node.op_type} {node.name!r}: weights are {values.dtype}, not int8")
        transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
        products.append(IntegerProduct(activations, values.T if transposed else values))
    return products


SHOWN_ROWS = 10


@dataclass(frozen=True)
class TrainedLogits:
    """What exported models are compared with: labels of the reported split, and the trained model's logits, shape ``(rows, outputs)``."""

    labels: NDArray[Any]
    label_schema: LabelSchema
    logits: Logits

    @property
    def metric(self) -> Metric:
        """Metric whose drop is limited."""
        return primary_metric(task_of(self.label_schema))

    def score(self, logits: Logits) -> float:
        """Return that metric for some logits of shape ``(rows, outputs)``."""
        return compute_metric(self.metric, self.labels, predictions_of(logits, self.label_schema))

    def quality(self, logits: Logits) -> dict[str, float]:
        """Return the metric, and for a classifier the calibration error."""
        metrics = {self.metric.name: self.score(logits)}
        if not self.label_schema.is_regression:
            metrics["calibration_error"] = calibration_error(calibration(Softmax.of(logits), self.labels))
        return metrics


@dataclass(frozen=True)
class LogitComparison:
    """Comparison of one exported model with the trained model.

    Metrics are ``max_abs_diff`` and ``mean_abs_diff`` of logits, ``agreement`` (fraction of rows with the same prediction), ``flips``
    (number of rows without), the metric and its drop with the ends of its bootstrap interval, and for a classifier ``calibration_error``.
    ``difference`` is the largest difference of a logit in each row; rows ``flipped`` have another prediction, the largest difference first.
    """

    metrics: dict[str, float]
    logits: Logits
    difference: NDArray[np.float64]
    flipped: NDArray[np.int64]
    not_finite: NDArray[np.int64]
    saturation: Saturation | None = None


def compare_logits(reference: TrainedLogits, exported: Logits, close: float, seed: int) -> LogitComparison:
    """Compare the logits of an exported model with those of the trained model, of the same shape.

    NaN and infinity count as 0, and their rows as ``not_finite``. Two predictions of a regression agree within the fraction ``close`` of
    the labels' standard deviation.
    """
    not_finite = np.flatnonzero(~np.isfinite(exported).all(axis=1))
    exported = np.nan_to_num(exported, nan=0.0, posinf=0.0, neginf=0.0)
    difference = np.abs(reference.logits.astype(np.float64) - exported)
    per_row = difference.max(axis=1)
    trained, other = (predictions_of(one, reference.label_schema) for one in (reference.logits, exported))
    if reference.label_schema.is_regression:
        agrees = np.asarray(per_row <= close * reference.labels.std())
        found = paired_difference(reference.metric, reference.labels, trained, other, seed=seed)
        interval = Interval(found.low, found.high)
    else:
        agrees = np.asarray(trained == other)
        interval = accuracy_drop_interval(trained == reference.labels, other == reference.labels, seed)
    agrees[not_finite] = False
    flipped = np.flatnonzero(~agrees)
    drop = f"{reference.metric.name}_drop"
    metrics = {
        "max_abs_diff": float(per_row.max()),
        "mean_abs_diff": float(difference.mean()),
        "agreement": float(agrees.mean()),
        "flips": len(flipped),
        drop: reference.score(reference.logits) - reference.score(exported),
        f"{drop}_low": interval.low,
        f"{drop}_high": interval.high,
        **reference.quality(exported),
    }
    return LogitComparison(metrics, exported, per_row, flipped[np.argsort(-per_row[flipped], kind="stable")], not_finite)


def violations_of(comparison: LogitComparison, tolerance: Tolerance, metric: str) -> list[str]:
    """Return one message for each limit that a comparison exceeds, with the rows that show it."""
    metrics, drop = comparison.metrics, comparison.metrics[f"{metric}_drop"]
    worst = int(comparison.difference.argmax())
    violations = []
    if len(comparison.not_finite):
        violations.append(f"no finite logits for {rows_named(comparison.not_finite)}")
    if tolerance.max_abs_diff is not None and metrics["max_abs_diff"] > tolerance.max_abs_diff:
        violations.append(
            f"a logit of row {worst} differs by {metrics['max_abs_diff']:.3g}, more than max_abs_diff {tolerance.max_abs_diff:g}"
        )
    if metrics["agreement"] < tolerance.min_agreement:
        rows = rows_named(comparison.flipped)
        violations.append(f"agreement is {metrics['agreement']:.6g}, less than min_agreement {tolerance.min_agreement:g}: it flips {rows}")
    if drop > tolerance.max_metric_drop:
        violations.append(f"{metric} drops by {drop:.3g}, more than max_metric_drop {tolerance.max_metric_drop:g}")
    saturation_allowed = isinstance(tolerance, Int8Tolerance) and tolerance.allow_saturation
    if comparison.saturation and comparison.saturation.possible and not saturation_allowed:
        violations.append(violation_of(comparison.saturation))
    return violations


def rows_named(rows: NDArray[np.int64]) -> str:
    """Return row numbers for a message: the first ten given, in ascending order, and how many more there are."""
    shown = ", ".join(str(row) for row in np.sort(rows[:SHOWN_ROWS]))
    more = f" and {len(rows) - SHOWN_ROWS} more" if len(rows) > SHOWN_ROWS else ""
    return f"row{'s' * (len(rows) > 1)} {shown}{more}"


LIMIT = 100
"""Flipped rows written per model: those whose logits differ most."""
Violations = Mapping[str, Sequence[str]]
"""Messages about exceeded tolerances, by precision."""


def write_report(
    params: Params, comparisons: Mapping[str, LogitComparison], violations: Violations, reference: TrainedLogits, published: Sequence[str]
) -> None:
    """Write ``comparison.json`` and ``flips.json``; all mappings are by precision."""
    raw = SplitReader.open(RAW, params.evaluate.split, made_by="download")
    models, flips = {}, {}
    for precision, comparison in comparisons.items():
        own = {"saturation": comparison.saturation, "violations": violations[precision], "published": precision in published}
        required = params.compare.tolerance(precision).required
        models[precision] = ModelComparison.model_validate({**comparison.metrics, **own, "required": required})
        flips[precision] = describe_flips(comparison, reference, raw, params.data.text_columns)
    report = ComparisonRecord(
        split=params.evaluate.split,
        rows=len(reference.labels),
        metric=reference.metric.name,
        trained=reference.quality(reference.logits),
        models=models,
    )
    with replace_directory(COMPARISON) as folder:
        report.write(folder / "comparison.json")
        Flips.model_validate(flips).write(folder / "flips.json")


def describe_flips(comparison: LogitComparison, reference: TrainedLogits, raw: SplitReader, text_columns: Sequence[str]) -> list[Flip]:
    """Return one entry for each flipped row, the largest difference first, at most ``LIMIT``, with its text in the raw split."""
    positions = comparison.flipped[:LIMIT]
    order = np.argsort(positions)
    texts = raw.take(positions[order], text_columns).take(np.argsort(order)).to_pylist()
    labels, names = reference.labels[positions].tolist(), reference.label_schema.names
    return [
        Flip(
            row=int(position),
            text=text,
            label=names[label] if names else label,
            trained=_prediction(reference, reference.logits, position),
            exported=_prediction(reference, comparison.logits, position),
            difference=float(comparison.difference[position]),
        )
        for position, text, label in zip(positions, texts, labels, strict=True)
    ]


def _prediction(reference: TrainedLogits, logits: Logits, position: int) -> Prediction:
    names = reference.label_schema.names
    if names is None:
        return Prediction(prediction=float(logits[position, 0]))
    (probability,) = probabilities(logits[position : position + 1])
    best = int(probability.argmax())
    return Prediction(prediction=names[best], probability=float(probability[best]))


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
    """Read the trained model's logits, float32 ``(rows, outputs)``, in the order of the split; there must be one for each row."""
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
    size = params.compare.batch_size
    exported = {
        precision: logits_of(OnnxClassifier.exported(CANDIDATES, precision), split, record.pad_token_id, size, precision)
        for precision in record.models
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
