"""Conversion of the fp32 graph to fp16 and int8, with ONNX Runtime's own tools."""

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from stages.export.graph import clean, load_model, save_model
from tuneline.core.files import temporary_directory
from tuneline.core.tables import SplitReader
from tuneline.model.batches import Batch, TokenizedSplit, length_sorted_batches
from tuneline.onnx.session import SAFE_WEIGHT_BITS, OnnxClassifier, logits_of
from tuneline.params.evaluate import Int8Params

QUANTIZED_OPERATORS = ["MatMul", "Gemm", "Gather"]
"""Operators whose weights are quantized: linear layers and embeddings. Products of two activations (attention scores) stay in
fp32, because rounding both factors costs more accuracy than it saves time."""
CALIBRATION_BATCH = 16
SELECTION_ROWS = 256
"""Maximal number of rows of the validation split on which ``best`` compares the methods."""


@dataclass(frozen=True)
class QuantizationRows:
    """Rows of the train split for static calibration, and of the validation split for the choice of the method, drawn with the seed.

    The reported split is not used, so that its metrics stay unbiased.
    """

    train: SplitReader
    validation: SplitReader
    pad_token_id: int
    seed: int

    def calibration(self, count: int) -> Iterator[Batch]:
        """Yield padded batches of at most ``count`` rows of the train split; rows of a batch have similar lengths."""
        split = self._sample(self.train, count)
        for rows in length_sorted_batches(split.lengths, CALIBRATION_BATCH):
            yield split.pad(rows, self.pad_token_id)

    def selection(self) -> TokenizedSplit:
        """Return the rows on which ``best`` compares the methods."""
        return self._sample(self.validation, SELECTION_ROWS)

    def _sample(self, rows: SplitReader, count: int) -> TokenizedSplit:
        split = TokenizedSplit.read(rows)
        if len(split) <= count:
            return split
        return split.take(np.sort(np.random.default_rng(self.seed).choice(len(split), count, replace=False)))


def to_fp16(model: onnx.ModelProto) -> onnx.ModelProto:
    """Convert a copy of the fp32 graph to fp16, for GPUs; on a CPU it is slower than fp32. ``logits`` stay float32.

    Constants beyond the range of fp16 become its largest number, so masks stay masks.
    """
    from onnxruntime.transformers.float16 import convert_float_to_float16

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one warning for every weight that is rounded to 0
        return clean(convert_float_to_float16(copy, keep_io_types=True))


def to_int8(model: onnx.ModelProto, params: Int8Params, rows: QuantizationRows) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Quantize a model with the method in ``params``; return it, and its entry ``quantization`` for ``export.json``.

    With ``reduce_range``, weights have 7 bits: two products of activations up to 255 and weights up to 64 add up to at most 32,640, which
    16 bits hold, so processors without VNNI do not saturate them.
    """
    bits = {"weight_bits": SAFE_WEIGHT_BITS if params.reduce_range else 8}
    if params.method == "dynamic":
        return to_dynamic_int8(model, params.reduce_range), {"method": "dynamic", **bits}
    static = to_static_int8(model, params.reduce_range, rows.calibration(params.calibration_rows))
    if params.method == "static":
        return static, {"method": "static", **bits}
    candidates = {"dynamic": to_dynamic_int8(model, params.reduce_range), "static": static}
    differences = logit_differences(model, candidates, rows)
    method = min(candidates, key=lambda name: differences[name])  # dynamic in a tie
    rounded = {name: round(value, 6) for name, value in differences.items()}
    return candidates[method], {"method": method, **bits, "mean_abs_diff_on_validation": rounded}


def logit_differences(model: onnx.ModelProto, candidates: dict[str, onnx.ModelProto], rows: QuantizationRows) -> dict[str, float]:
    """Return the mean absolute difference between the logits of each candidate and those of ``model``."""
    split = rows.selection()

    def run(graph: onnx.ModelProto) -> NDArray[np.float32]:
        with temporary_directory() as folder:
            save_model(graph, path := folder / "model.onnx")
            return logits_of(OnnxClassifier(path), split, rows.pad_token_id)

    reference = run(model)
    return {name: mean_difference(run(graph), reference) for name, graph in candidates.items()}


def mean_difference(logits: NDArray[np.float32], reference: NDArray[np.float32]) -> float:
    """Return the mean absolute difference of logits; infinity if any of them is NaN or infinite."""
    difference = float(np.abs(logits.astype(np.float64) - reference).mean())
    return difference if np.isfinite(difference) else float("inf")


def to_dynamic_int8(model: onnx.ModelProto, reduce_range: bool) -> onnx.ModelProto:
    """Quantize the weights of a copy of the fp32 graph to int8; ranges of activations are computed for each batch at run time.

    So the logits of a row depend slightly on the other rows of its batch.
    """
    return _quantize(
        model,
        lambda source, target: quantize_dynamic(
            source,
            target,
            op_types_to_quantize=QUANTIZED_OPERATORS,
            per_channel=True,
            reduce_range=reduce_range,
            weight_type=QuantType.QInt8,
        ),
    )


def to_static_int8(model: onnx.ModelProto, reduce_range: bool, calibration: Iterable[Batch]) -> onnx.ModelProto:
    """Quantize the weights of a copy of the fp32 graph to int8, and activations by their minimum and maximum on padded batches."""
    inputs = [value.name for value in model.graph.input]
    return _quantize(
        model,
        lambda source, target: quantize_static(
            source,
            target,
            _CalibrationReader({name: batch[name] for name in inputs} for batch in calibration),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=QUANTIZED_OPERATORS,
            per_channel=True,
            reduce_range=reduce_range,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            extra_options={"MatMulConstBOnly": True},
        ),
    )


class _CalibrationReader(CalibrationDataReader):  # type: ignore[misc]
    """Gives the quantizer one batch at a time."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        self._batches = iter(batches)

    def get_next(self) -> Batch | None:
        """Return the next batch, or ``None`` after the last."""
        return next(self._batches, None)


def _quantize(model: onnx.ModelProto, quantizer: Callable[[Path, Path], None]) -> onnx.ModelProto:
    """Run a quantizer on files, because it would move the weights out of a model in memory."""
    with temporary_directory() as folder, _quiet():
        source, target = folder / "fp32.onnx", folder / "int8.onnx"
        save_model(model, source)
        quantizer(source, target)
        return clean(load_model(target))


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the quantizer's advice to pre-process the graph, which fails on these graphs."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
