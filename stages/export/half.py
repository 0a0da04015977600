"""The exported model in 16 bits, for GPUs; on a CPU it is slower than fp32."""

import warnings

import onnx

from stages.export.cleaning import clean


def to_fp16(model: onnx.ModelProto) -> onnx.ModelProto:
    """Converts weights and arithmetic to fp16; ``logits`` come out as float32.

    Constants beyond fp16's range become its largest number: masks stay masks.

    Args:
        model: The fp32 graph. It is not changed.
    """
    from onnxruntime.transformers.float16 import convert_float_to_float16

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one for every weight that is rounded to 0
        return clean(convert_float_to_float16(copy, keep_io_types=True))
