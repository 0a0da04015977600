"""The Open Inference Protocol, version 2, of KServe and Triton: ``POST /v2/models/NAME/infer``.

https://github.com/kserve/open-inference-protocol, with texts as BYTES in JSON or in Triton's binary form.
An input has the name of its text column; the only one of a model of one text may have any. What the outputs
mean is in their parameters: the names of the labels.
"""

import re
import struct
from collections.abc import Mapping
from typing import Any

from tuneline.program.text_classifier import TextClassifier
from tuneline.service.answering import AnsweredRows
from tuneline.service.dialects.rows import refuse_many, texts_of_request
from tuneline.service.errors import RequestError, invalid, unprocessable
from tuneline.service.limits import ServiceLimits

JSON_LENGTH = "inference-header-content-length"
"""Header with the bytes of the JSON at the start of a body, if inputs follow in binary form."""
LENGTH = struct.Struct("<I")
"""Length of a text in the binary form, before its bytes."""


def json_length(header: str | None, content: bytes) -> int:
    """Return the bytes of the JSON at the start of a body.

    Raises:
        RequestError: The header is no such number.
    """
    if header is None:
        return len(content)
    # isdigit is true for ², and int refuses thousands of digits
    if re.fullmatch("[0-9]{1,15}", header) is None or int(header) > len(content):
        raise invalid(f"{JSON_LENGTH} is the number of bytes of the JSON at the start of the body.")
    return int(header)


def read_open_inference(
    body: Any, binary: bytes, model: TextClassifier, limits: ServiceLimits
) -> list[tuple[str, ...]]:
    """Return the texts of each row of a request.

    Args:
        body: The JSON.
        binary: What follows it.
        model: The model.
        limits: What a request may take.

    Raises:
        RequestError: It is no request, or its rows are no texts.
    """
    inputs = body.get("inputs") if isinstance(body, Mapping) else None
    if not isinstance(inputs, list) or not all(isinstance(each, Mapping) for each in inputs):
        raise invalid("The body has inputs: a list of objects with name, shape, datatype and data.")
    if not isinstance(body.get("id"), str | None):
        raise invalid("id is a text.")
    texts: dict[str, list[Any]] = {}
    position = 0
    for tensor in inputs:
        name = str(tensor.get("name"))
        if tensor.get("datatype") != "BYTES":
            raise unprocessable(f"input {name[:40]!r}: the datatype of a text is BYTES.")
        size = _binary_size(tensor)
        if size is None:
            values = _flat(tensor.get("data"))
        else:
            values = _read_binary(binary[position : position + size], limits)
            position += size
        refuse_many(len(values), limits)
        _check_shape(tensor, len(values))
        if name in texts:
            raise invalid(f"There are two inputs {name[:40]!r}.")
        texts[name] = values

    columns = model.text_columns
    if len(columns) == 1 and len(texts) == 1:
        texts = {columns[0]: next(iter(texts.values()))}
    if set(texts) != set(columns):
        raise unprocessable(f"The inputs of this model are {', '.join(map(repr, columns))}.")
    lengths = {len(values) for values in texts.values()}
    if len(lengths) > 1:
        raise unprocessable("The inputs have different numbers of texts.")
    return texts_of_request(list(zip(*(texts[column] for column in columns), strict=True)), columns, limits)


def open_inference_answer(name: str, request_id: str | None, answered: AnsweredRows) -> dict[str, Any]:
    """Return the answer to a request."""
    answer: dict[str, Any] = {"model_name": name, "model_version": answered.model.version}
    if request_id is not None:
        answer["id"] = request_id
    answer["outputs"] = _outputs(answered)
    return answer


def _outputs(answered: AnsweredRows) -> list[dict[str, Any]]:
    """Return the tensors of an answer."""
    predictions = answered.predictions
    task = answered.model.task
    if not task.has_classes:
        tensors = [_tensor("number", "FP64", [row.number for row in predictions])]
        if predictions[0].interval is not None:
            tensors.append(_tensor("interval", "FP64", [row.interval for row in predictions], 2))
        return tensors

    names = list(task.class_names)
    if task.one_class:
        answer = _tensor("label", "BYTES", [row.label or "" for row in predictions])
    else:
        chosen = [[name in (row.labels or ()) for name in names] for row in predictions]
        answer = _tensor("chosen", "BOOL", chosen, len(names), names)
    return [
        answer,
        _tensor("probability", "FP64", [row.probability for row in predictions]),
        _tensor("scores", "FP64", [list(row.scores.values()) for row in predictions], len(names), names),
        _tensor("reason", "BYTES", [row.reason or "" for row in predictions]),
    ]


def _tensor(
    name: str, datatype: str, values: list[Any], width: int = 1, labels: list[str] | None = None
) -> dict[str, Any]:
    """Return a tensor; ``values`` has a list for each row if there are several columns."""
    tensor: dict[str, Any] = {"name": name, "datatype": datatype, "shape": [len(values)]}
    if width > 1 or labels is not None:
        tensor["shape"] = [len(values), width]
        values = [value for row in values for value in row]
    if labels is not None:
        tensor["parameters"] = {"labels": labels}
    tensor["data"] = values
    return tensor


def model_metadata(name: str, model: TextClassifier) -> dict[str, Any]:
    """Return what ``GET /v2/models/NAME`` answers."""
    inputs = [{"name": column, "datatype": "BYTES", "shape": [-1]} for column in model.text_columns]
    outputs: list[dict[str, Any]]
    if model.task.has_classes:
        names = list(model.task.class_names)
        first = {"name": "label", "datatype": "BYTES", "shape": [-1]}
        if not model.task.one_class:
            first = {"name": "chosen", "datatype": "BOOL", "shape": [-1, len(names)]}
        scores = {"name": "scores", "datatype": "FP64", "shape": [-1, len(names)]}
        outputs = [
            first,
            {"name": "probability", "datatype": "FP64", "shape": [-1]},
            {**scores, "parameters": {"labels": names}},
            {"name": "reason", "datatype": "BYTES", "shape": [-1]},
        ]
    else:
        outputs = [{"name": "number", "datatype": "FP64", "shape": [-1]}]
    return {
        "name": name,
        "versions": [model.version],
        "platform": "tuneline_onnx",
        "inputs": inputs,
        "outputs": outputs,
    }


def _binary_size(tensor: Mapping[str, Any]) -> int | None:
    """Return the bytes of an input in binary form; ``None`` if its data are in the JSON."""
    parameters = tensor.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, Mapping) else None
    if size is None:
        return None
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise invalid("binary_data_size is a number of bytes.")
    return size


def _read_binary(content: bytes, limits: ServiceLimits) -> list[str]:
    """Return texts from their binary form: the length of each, and its bytes in UTF-8."""
    texts = []
    position = 0
    while position < len(content):
        start = position + LENGTH.size
        if start > len(content):
            raise invalid("The binary input ends in the length of a text.")
        (length,) = LENGTH.unpack_from(content, position)
        position = start + length
        if position > len(content):
            raise invalid("The binary input ends in a text.")
        try:
            texts.append(content[start:position].decode())
        except UnicodeDecodeError:
            raise unprocessable(f"row {len(texts)}: the text is not UTF-8.") from None
        refuse_many(len(texts), limits)
    return texts


def _flat(data: Any) -> list[Any]:
    """Return the values of an input, each of which may be in a list of its own."""
    if not isinstance(data, list):
        raise invalid("data is a list of texts.")
    values = []
    for value in data:
        if isinstance(value, list):
            values += value
        else:
            values.append(value)
    return values


def _check_shape(tensor: Mapping[str, Any], count: int) -> None:
    """Refuse a shape of another number of texts."""
    shape = tensor.get("shape")
    if not isinstance(shape, list) or not all(_is_size(size) for size in shape):
        raise invalid("shape is a list of numbers of texts.")
    # No product of them all: that of thousands of large numbers takes a minute.
    sizes = [size for size in shape if size != 1]
    if sizes != ([] if count == 1 else [count]):
        raise unprocessable(f"shape is not that of the {count} texts in data.")


def _is_size(size: Any) -> bool:
    """Return True for a number of texts."""
    return isinstance(size, int) and not isinstance(size, bool)


def require_model(asked: str, version: str | None, name: str, model: TextClassifier) -> None:
    """Refuse a request for another model.

    Raises:
        RequestError: The model or the version is not the one that the service has.
    """
    if asked != name:
        raise RequestError(404, f"This service has the model {name!r}.", "Validation")
    if version is not None and version != model.version:
        raise RequestError(404, f"This service has the version {model.version!r}.", "Validation")
