"""The exported model in 8 bits, by ONNX Runtime's own quantizer: activations measured as it runs, or beforehand."""

import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from stages.export.cleaning import clean
from stages.export.storage import load, save
from tuneline.batches import Batch

WEIGHTS = ["MatMul", "Gemm", "Gather"]
"""Operators whose weights are quantized: linear layers and embeddings. Products of two activations (attention scores) stay
in fp32: rounding both factors costs more than it saves."""


def to_dynamic_int8(model: onnx.ModelProto, reduce_range: bool) -> onnx.ModelProto:
    """Quantizes weights to 8 bits; activations are measured batch by batch when the model runs.

    Args:
        model: The fp32 graph, without inferred shapes. It is not changed.
        reduce_range: Weights in 7 bits.

    Returns:
        A graph whose logits depend, in their last digits, on what else is in the batch: the range of an activation is that
        of the whole batch.
    """
    return _quantized(
        model,
        lambda given, made: quantize_dynamic(
            given, made, op_types_to_quantize=WEIGHTS, per_channel=True, reduce_range=reduce_range, weight_type=QuantType.QInt8
        ),
    )


def to_static_int8(model: onnx.ModelProto, reduce_range: bool, calibration: Iterable[Batch]) -> onnx.ModelProto:
    """Quantizes weights to 8 bits, and activations by the smallest and largest value that calibration rows give them.

    Args:
        model: The fp32 graph, without inferred shapes. It is not changed.
        reduce_range: Weights in 7 bits.
        calibration: Padded batches of model inputs.
    """
    inputs = [given.name for given in model.graph.input]
    return _quantized(
        model,
        lambda given, made: quantize_static(
            given,
            made,
            _Calibration({name: batch[name] for name in inputs} for batch in calibration),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=WEIGHTS,
            per_channel=True,
            reduce_range=reduce_range,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            extra_options={"MatMulConstBOnly": True},
        ),
    )


def mean_difference(logits: NDArray[np.float32], reference: NDArray[np.float32]) -> float:
    """Mean absolute difference of two sets of logits; infinite where one of them is not a finite number."""
    difference = float(np.abs(logits.astype(np.float64) - reference).mean())
    return difference if np.isfinite(difference) else float("inf")


class _Calibration(CalibrationDataReader):  # type: ignore[misc]
    """Gives the quantizer one batch at a time."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        self._batches = iter(batches)

    def get_next(self) -> Batch | None:
        """The next batch, ``None`` after the last."""
        return next(self._batches, None)


def _quantized(model: onnx.ModelProto, quantize: Callable[[Path, Path], None]) -> onnx.ModelProto:
    """Goes through files: given a model in memory, the quantizer moves the weights out of it."""
    with tempfile.TemporaryDirectory() as folder, _quiet():
        given, made = Path(folder, "given.onnx"), Path(folder, "made.onnx")
        save(model, given)
        quantize(given, made)
        return clean(load(made))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the quantizer's advice (a pre-processing that fails on these graphs) off the user's screen."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
