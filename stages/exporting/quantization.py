"""The exported model in 8 bits, by ONNX Runtime's own quantizer."""

import tempfile
from pathlib import Path

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

from stages.exporting.cleaning import clean


def to_dynamic_int8(model: onnx.ModelProto) -> onnx.ModelProto:
    """Quantizes weights per channel to 8 bits; activations are measured batch by batch when the model runs.

    Args:
        model: The fp32 graph, without inferred shapes. It is not changed.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "model.int8.onnx")
        quantize_dynamic(copy, made, per_channel=True, weight_type=QuantType.QInt8)
        return clean(onnx.load(made))
