"""The Open Inference Protocol, version 2, of KServe: ``POST /v2/models/NAME/infer``.

https://github.com/kserve/open-inference-protocol, with texts as BYTES in JSON.
An input has the name of its text column; the only one of a model of one text may have any. What the outputs
mean is in their parameters: the names of the labels.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tuneline.program.text_classifier import Prediction, TextClassifier
from tuneline.service.requests import RequestError, ServiceLimits, texts_of_request
from tuneline.tasks import Regression, Task


def read_open_inference(body: Any, model: TextClassifier, limits: ServiceLimits) -> list[tuple[str, ...]]:
    """Return the texts of each row of a request.

    Raises:
        RequestError: It is not a request, or its rows are not texts.
    """
    inputs = body.get("inputs") if isinstance(body, Mapping) else None
    if not isinstance(inputs, list) or not all(isinstance(each, Mapping) for each in inputs):
        raise RequestError(400, "The body has inputs: a list of objects with name, shape, datatype and data.")
    if not isinstance(body.get("id"), str | None):
        raise RequestError(400, "id is a text.")
    texts: dict[str, list[Any]] = {}
    for tensor in inputs:
        name = str(tensor.get("name"))
        if tensor.get("datatype") != "BYTES":
            raise RequestError(422, "The datatype of a text is BYTES.")
        if name in texts:
            raise RequestError(400, "There are two inputs of one name.")
        texts[name] = _values(tensor)

    columns = model.text_columns
    if len(columns) == 1 and len(texts) == 1:
        texts = {columns[0]: next(iter(texts.values()))}
    if set(texts) != set(columns):
        raise RequestError(422, f"The inputs of this model are {', '.join(map(repr, columns))}.")
    if len({len(values) for values in texts.values()}) > 1:
        raise RequestError(422, "The inputs have different numbers of texts.")
    return texts_of_request(list(zip(*(texts[column] for column in columns), strict=True)), columns, limits)


def _values(tensor: Mapping[str, Any]) -> list[Any]:
    """Return the texts of an input, each of which may be in a list of its own."""
    data = tensor.get("data")
    if not isinstance(data, list):
        raise RequestError(400, "data is a list of texts. The binary form is not read here.")
    values = []
    for value in data:
        if isinstance(value, list):
            values += value
        else:
            values.append(value)
    if tensor.get("shape") not in ([len(values)], [len(values), 1]):
        raise RequestError(422, f"shape is not that of the {len(values)} texts in data: [{len(values)}].")
    return values


def open_inference_answer(
    name: str, request_id: str | None, model: TextClassifier, predictions: Sequence[Prediction]
) -> dict[str, Any]:
    """Return the answer to a request."""
    answer: dict[str, Any] = {"model_name": name, "model_version": model.version}
    if request_id is not None:
        answer["id"] = request_id
    answer["outputs"] = _outputs(model.task, predictions)
    return answer


def _outputs(task: Task, predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Return the tensors of an answer."""
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
        if isinstance(model.task, Regression) and model.task.half_width is not None:
            outputs.append({"name": "interval", "datatype": "FP64", "shape": [-1, 2]})
    return {
        "name": name,
        "versions": [model.version],
        "platform": "tuneline_onnx",
        "inputs": inputs,
        "outputs": outputs,
    }
