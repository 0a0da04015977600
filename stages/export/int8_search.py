"""The search for an int8 model that predicts what the fp32 model does, within a budget.

int8 models are tried in the order of what they are expected to give, and the first one that agrees with fp32
is taken: ``smoothed``; the same with more and more of its linear layers in fp32, those whose rounding costs
most first; ``dynamic``. With ``batch_invariant``, they are ``per_token`` and the same with layers in fp32. If
none agrees, a later one is taken only where it agrees better beyond noise: layers in fp32 cost speed. The
budget counts models and rows, not seconds, so that the machine decides nothing.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Self

import numpy as np
import onnx
from numpy.typing import NDArray

from stages.export.fp32_layers import layer_errors, linear_layers, with_fp32_layers
from stages.export.graph import save_model
from stages.export.int8 import smooth, to_dynamic_int8, to_static_int8
from stages.export.per_token_int8 import to_per_token_int8
from tuneline.core.tables import SplitReader
from tuneline.model.batches import Batch, length_sorted_batches
from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.onnx.agreement import agreement
from tuneline.onnx.session import SAFE_WEIGHT_BITS, OnnxClassifier, logits_of
from tuneline.params import Params
from tuneline.params.evaluate import Int8Params
from tuneline.runtime.atomic_files import temporary_directory
from tuneline.runtime.terminal import progress, say
from tuneline.tasks import Task

BATCH = 16
"""Rows, or windows of rows, of a batch: few, because long ones take gigabytes of memory."""
LAYER_ROWS = 64
"""Rows that the errors of layers are measured on: only their order matters."""


@dataclass(frozen=True)
class QuantizationRows:
    """Rows of the train split for calibration, and of the validation split to compare quantized models.

    They are drawn with the seed. The reported split is not used, so that its metrics stay unbiased. The task
    has the decisions of the trained model, such as the thresholds of its labels. ``close_rmse`` is the
    parameter of ``compare``.
    """

    train: SplitReader
    validation: SplitReader
    task: Task
    pad_token_id: int
    seed: int
    close_rmse: float

    def calibration(self, count: int) -> Iterator[Batch]:
        """Yield padded batches of at most ``count`` rows of the train split, of similar length each."""
        split = TokenizedSplit.read(self.train).sample(count, self.seed)
        return padded_batches(split, self.pad_token_id)

    def selection(self, count: int) -> TokenizedSplit:
        """Return at most ``count`` rows of the validation split, with the decisions of the trained model."""
        split = TokenizedSplit.read(self.validation).sample(count, self.seed)
        return replace(split, task=self.task)


def padded_batches(split: TokenizedSplit, pad_token_id: int) -> Iterator[Batch]:
    """Yield padded batches of the rows of a split, of similar length each."""
    for rows in length_sorted_batches(split.lengths, BATCH, split.window_counts):
        yield split.pad(rows, pad_token_id)


@dataclass(frozen=True)
class Fp32Model:
    """Rows of the validation split, and the logits of the fp32 model for them: int8 is compared with these.

    The logits have the shape ``(rows, outputs)``.
    """

    split: TokenizedSplit
    logits: NDArray[np.float32]
    rows: QuantizationRows

    @classmethod
    def of(cls, model: onnx.ModelProto, rows: QuantizationRows, count: int) -> "Fp32Model":
        """Compute the logits of the fp32 model for at most ``count`` rows."""
        split = rows.selection(count)
        return cls(split, _logits(model, split, rows.pad_token_id), rows)

    def first(self, count: int) -> Iterator[Batch]:
        """Yield padded batches of the first rows."""
        rows = self.split.take(np.arange(min(count, len(self.split))))
        return padded_batches(rows, self.rows.pad_token_id)

    def run(self, graph: onnx.ModelProto) -> NDArray[np.float32]:
        """Return the logits of another graph on these rows."""
        return _logits(graph, self.split, self.rows.pad_token_id)

    def difference(self, logits: NDArray[np.float32]) -> float:
        """Return the mean absolute difference of logits; infinity if any of them is NaN or infinite."""
        difference = float(np.abs(logits.astype(np.float64) - self.logits).mean())
        if not np.isfinite(difference):
            return math.inf
        return difference

    def agreements(self, logits: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the agreement of predictions, shape ``(rows,)``; 0 where a logit is NaN or infinite."""
        task = self.split.task
        agreements = agreement(task, self.logits, logits, self.split.labels, self.rows.close_rmse)
        return np.where(np.isfinite(logits).reshape(len(logits), -1).all(axis=1), agreements, 0.0)


def _logits(graph: onnx.ModelProto, split: TokenizedSplit, pad_token_id: int) -> NDArray[np.float32]:
    """Run a graph with ONNX Runtime, and return the logits of a split, shape ``(rows, outputs)``."""
    with temporary_directory() as folder:
        path = folder / "model.onnx"
        save_model(graph, path)
        return logits_of(OnnxClassifier(path), split, split.task.outputs, pad_token_id, BATCH)


@dataclass(frozen=True)
class Int8Model:
    """An int8 model that the search tries: its method, and its linear layers in fp32."""

    method: str
    graph: onnx.ModelProto
    fp32_layers: Sequence[str] = ()


@dataclass(frozen=True)
class MeasuredInt8:
    """How close an int8 model is to fp32 on rows of the validation split.

    Attributes:
        agreements: Agreement of its predictions for each row, shape ``(rows,)``.
        difference: Mean absolute difference of its logits.
    """

    candidate: Int8Model
    agreements: NDArray[np.float64]
    difference: float

    @classmethod
    def of(cls, candidate: Int8Model, reference: Fp32Model) -> Self:
        """Run a model on the rows."""
        logits = reference.run(candidate.graph)
        return cls(candidate, reference.agreements(logits), reference.difference(logits))

    @property
    def agreement(self) -> float:
        """Mean agreement of its predictions."""
        return float(self.agreements.mean())

    def agrees_better(self, other: "MeasuredInt8") -> bool:
        """Return True if it agrees better on the same rows, by more than two standard errors of the gain."""
        gains = self.agreements - other.agreements
        return bool(gains.mean() > 2 * gains.std() / math.sqrt(len(gains)))


def to_int8(
    model: onnx.ModelProto, params: Params, rows: QuantizationRows
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Quantize a model with ``export.int8.method``; return it and its ``quantization`` for ``export.json``.

    With ``reduce_range``, weights have 7 bits: two products of activations up to 255 and weights up to 64 add
    up to at most 32,640, which 16 bits hold, so processors without VNNI do not saturate them.
    """
    options = params.export.int8
    bits = 8
    if options.reduce_range:
        bits = SAFE_WEIGHT_BITS
    if options.method != "best":
        graph = quantized(options.method, model, options, rows)
        return graph, {"method": options.method, "weight_bits": bits}

    # agreement of just min_agreement on these rows may be less on others: half-way between it and 1
    goal = (1 + params.compare.int8.min_agreement) / 2
    measured = search(model, options, rows, goal)
    candidate = measured.candidate
    record = {
        "method": candidate.method,
        "weight_bits": bits,
        "mean_abs_diff_on_validation": {candidate.method: round(measured.difference, 6)},
    }
    if candidate.fp32_layers:
        record["fp32_layers"] = list(candidate.fp32_layers)
    return candidate.graph, record


def quantized(
    method: str, model: onnx.ModelProto, options: Int8Params, rows: QuantizationRows
) -> onnx.ModelProto:
    """Quantize a model with a method of ``export.int8.method`` other than ``best``."""
    if method == "per_token":
        return to_per_token_int8(model, options.reduce_range)
    if method == "static":
        return to_static_int8(model, options.reduce_range, rows.calibration(options.calibration_rows))
    if method == "smoothed":
        model = smooth(model, rows.calibration(options.calibration_rows))
    return to_dynamic_int8(model, options.reduce_range)


def search(model: onnx.ModelProto, options: Int8Params, rows: QuantizationRows, goal: float) -> MeasuredInt8:
    """Return the first int8 model whose agreement with fp32 is at least ``goal``.

    If there is none, return the first one that no later one agrees better than beyond noise.
    """
    with progress("export: int8 models", options.search_models, "models") as step:
        reference = Fp32Model.of(model, rows, options.search_rows)
        tried = islice(int8_models(model, options, rows, reference), options.search_models)
        best = MeasuredInt8.of(next(tried), reference)
        step.advance(1)
        while best.agreement < goal:
            candidate = next(tried, None)
            if candidate is None:
                break
            measured = MeasuredInt8.of(candidate, reference)
            step.advance(1)
            if measured.agreement >= goal or measured.agrees_better(best):
                best = measured

    if best.agreement < goal:
        say(
            f"export: no int8 model of {step.done:.0f} agrees with fp32 on {goal:.1%} of"
            f" {len(reference.split):,} validation rows; the one taken does on {best.agreement:.1%}"
        )
    return best


def int8_models(
    model: onnx.ModelProto, options: Int8Params, rows: QuantizationRows, reference: Fp32Model
) -> Iterator[Int8Model]:
    """Yield int8 models, the fastest first.

    At most a fraction ``max_fp32`` of the weights of linear layers is in fp32: each layer costs speed. With
    ``batch_invariant``, all of them are ``per_token``.
    """
    if options.batch_invariant:
        method = "per_token"
        fp32 = model
        graph = to_per_token_int8(model, options.reduce_range)
    else:
        method = "smoothed"
        fp32 = smooth(model, rows.calibration(options.calibration_rows))
        graph = to_dynamic_int8(fp32, options.reduce_range)
    yield Int8Model(method, graph)

    # one layer in fp32, then twice as many each time
    layers = layers_to_keep(graph, fp32, options.max_fp32, reference)
    count = 1
    while count < 2 * len(layers):
        kept = layers[:count]
        yield Int8Model(method, with_fp32_layers(graph, fp32, kept), kept)
        count *= 2

    if not options.batch_invariant:
        yield Int8Model("dynamic", to_dynamic_int8(model, options.reduce_range))


def layers_to_keep(
    graph: onnx.ModelProto, fp32: onnx.ModelProto, max_fp32: float, reference: Fp32Model
) -> list[str]:
    """Return the layers of at least average size that may stay in fp32, those that lose most first.

    A smaller layer, such as a projection of the attention, changes predictions less, and saves little.
    """
    layers = linear_layers(fp32)
    allowed = max_fp32 * sum(layers.values())
    average = sum(layers.values()) / max(len(layers), 1)
    large = [name for name, weights in layers.items() if average <= weights <= allowed]
    if not large:
        return []

    errors = layer_errors(graph, fp32, large, reference.first(LAYER_ROWS))
    ranked = sorted(large, key=lambda name: -errors[name])
    weights = np.cumsum([layers[name] for name in ranked])
    return ranked[: np.searchsorted(weights, allowed, side="right")]
