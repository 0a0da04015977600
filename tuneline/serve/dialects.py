"""The dialects of other servers.

``POST /predict`` is that of text-embeddings-inference
(https://github.com/huggingface/text-embeddings-inference, its ``router/src/http/types.rs``). A list of two
texts is one pair there, and a list of lists is a batch. For a model of one text, that makes a batch of two
texts a pair that it never saw, so it is refused.

``POST /v2/models/NAME/infer`` is that of the Open Inference Protocol, version 2, of KServe
(https://github.com/kserve/open-inference-protocol), with texts as BYTES in JSON. An input has the name of its
text column; the only one of a model of one text may have any. What the outputs mean is in their parameters:
the names of the labels.

What other servers read and this one does not is refused.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.model.tasks import Regression, Task
from tuneline.serve.requests import (
    RequestError,
    ServiceLimits,
    field_of,
    refuse_unread,
    row_example,
    texts_of_request,
)
from tuneline.serve.text_classifier import Prediction, TextClassifier

NUMBER = "LABEL_0"
"""Name that the number of a regression has in this dialect."""


TEI_OPTIONS = ("truncate", "truncation_direction", "raw_scores", "parameters")
"""Options of a request; the client of huggingface_hub writes its own into ``parameters``."""
PLAIN = {"content_type": "str", "binary_data": False, "binary_data_output": False}
"""Parameters of the Open Inference Protocol that ask for what is done anyway."""


@dataclass(frozen=True)
class TeiRequest:
    """A request.

    Attributes:
        texts: The texts of each row.
        is_batch: True if the answer is a list of lists.
        truncate: False if rows that the model does not read to their end are an error.
        raw_scores: True for the outputs of the model instead of probabilities.
    """

    texts: list[tuple[str, ...]]
    is_batch: bool
    truncate: bool
    raw_scores: bool


def read_tei(body: Any, model: TextClassifier, limits: ServiceLimits) -> TeiRequest:
    """Read the body of a request.

    Raises:
        RequestError: It is none, or its rows are not texts.
    """
    inputs = field_of(body, "inputs", model.text_columns, TEI_OPTIONS)
    _refuse_parameters(body)
    is_batch = isinstance(inputs, list) and any(isinstance(row, (list, Mapping)) for row in inputs)
    if isinstance(inputs, list) and not is_batch:
        _refuse_texts(inputs, model.text_columns)
    rows = inputs if is_batch or inputs == [] else [inputs]

    # A model reads the side of long texts that it was trained with.
    side = model.encoder.truncation_side
    if str(body.get("truncation_direction") or side).lower() != side:
        message = f"This model was trained with texts truncated {side}: leave truncation_direction out."
        raise RequestError(422, message)
    return TeiRequest(
        texts=texts_of_request(rows, model.text_columns, limits),
        is_batch=is_batch,
        truncate=_flag(body, "truncate", default=True),
        raw_scores=_flag(body, "raw_scores", default=False),
    )


def tei_answer(
    request: TeiRequest, predictions: Sequence[Prediction], outputs: NDArray[np.float32]
) -> list[Any]:
    """Return the classes of each row with their scores, the highest first; none without a finite number."""
    rows: list[list[dict[str, Any]]] = []
    for prediction, logits in zip(predictions, outputs, strict=True):
        if not prediction.scores and prediction.number is None:  # the model gave no finite number
            rows.append([])
            continue
        names = list(prediction.scores) or [NUMBER]
        values: list[Any] = list(prediction.scores.values()) or [prediction.number]
        if request.raw_scores:
            values = logits.tolist()
        items = [{"score": score, "label": name} for name, score in zip(names, values, strict=True)]
        rows.append(sorted(items, key=lambda item: -item["score"]))
    if not request.is_batch:
        return rows[0]
    return rows


def tei_info(model: TextClassifier, name: str, limits: ServiceLimits) -> dict[str, Any]:
    """Return what ``GET /info`` answers."""
    names = model.task.class_names or [NUMBER]
    return {
        "model_id": name,
        "model_sha": model.version,
        "model_dtype": model.classifier.metadata["precision"],
        "model_type": {
            "classifier": {
                "id2label": {str(number): label for number, label in enumerate(names)},
                "label2id": {label: number for number, label in enumerate(names)},
            }
        },
        "max_input_length": model.max_length,
        "max_client_batch_size": limits.rows,
        "max_concurrent_requests": limits.waiting_rows,
        "text_columns": list(model.text_columns),
        "task": model.task.kind,
    }


def _refuse_texts(inputs: list[Any], columns: tuple[str, ...]) -> None:
    """Refuse a list of texts that is not a row of the model."""
    if inputs and len(inputs) != len(columns):
        example = row_example(columns)
        if len(columns) == 1:
            example = f"[{example}]"
        raise RequestError(
            422,
            f"A list of texts is one row here, of as many texts: this model reads {len(columns)}. A batch is"
            f' {{"inputs": [{example}, {example}]}}.',
        )


def _flag(body: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise RequestError(400, f"{name} is true or false.")
    return value


# The Open Inference Protocol.


def _refuse_parameters(asked: Mapping[str, Any]) -> None:
    """Refuse the parameters of a request or tensor, unless they ask for what is done anyway."""
    parameters = asked.get("parameters") or {}
    if isinstance(parameters, Mapping):
        parameters = {name: value for name, value in parameters.items() if PLAIN.get(name) != value}
    refuse_unread(parameters, (), "parameters: ")


def read_open_inference(body: Any, model: TextClassifier, limits: ServiceLimits) -> list[tuple[str, ...]]:
    """Return the texts of each row of a request.

    Raises:
        RequestError: It is not a request, asks for what is not done, or its rows are not texts.
    """
    inputs = None
    if isinstance(body, Mapping):
        inputs = body.get("inputs")
    if not isinstance(inputs, list) or not all(isinstance(each, Mapping) for each in inputs):
        raise RequestError(400, "The body has inputs: a list of objects with name, shape, datatype and data.")
    if not isinstance(body.get("id"), str | None):
        raise RequestError(400, "id is a text.")
    refuse_unread(body, ("inputs", "id", "parameters"))
    _refuse_parameters(body)
    texts: dict[str, list[Any]] = {}
    for tensor in inputs:
        refuse_unread(tensor, ("name", "shape", "datatype", "data", "parameters"), "inputs: ")
        _refuse_parameters(tensor)
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
    name: str, body: Mapping[str, Any], model: TextClassifier, predictions: Sequence[Prediction]
) -> dict[str, Any]:
    """Return the answer to a request."""
    answer: dict[str, Any] = {"model_name": name, "model_version": model.version}
    if body.get("id") is not None:
        answer["id"] = body["id"]
    answer["outputs"] = _outputs(model.task, predictions)
    return answer


def _outputs(task: Task, predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Return the tensors of an answer."""
    reason = _tensor("reason", "BYTES", [row.reason or "" for row in predictions])
    if isinstance(task, Regression):
        tensors = [_tensor("number", "FP64", [row.number for row in predictions])]
        if task.half_width is not None:
            ends = [row.interval or (None, None) for row in predictions]
            tensors.append(_tensor("interval", "FP64", ends, 2))
        return [*tensors, reason]

    names = list(task.class_names)
    if task.one_class:
        answer = _tensor("label", "BYTES", [row.label or "" for row in predictions])
    else:
        chosen = []
        for row in predictions:
            chosen.append([name in (row.labels or ()) for name in names])
        answer = _tensor("chosen", "BOOL", chosen, len(names), names)
    scores = [[row.scores.get(name) for name in names] for row in predictions]
    return [
        answer,
        _tensor("probability", "FP64", [row.probability for row in predictions]),
        _tensor("scores", "FP64", scores, len(names), names),
        reason,
    ]


def _tensor(
    name: str, datatype: str, values: list[Any], width: int = 1, labels: list[str] | None = None
) -> dict[str, Any]:
    """Return a tensor; ``values`` has a list for each row if there are several columns."""
    tensor: dict[str, Any] = {"name": name, "datatype": datatype, "shape": [len(values)]}
    if width > 1 or labels is not None:
        tensor["shape"].append(width)
        values = list(itertools.chain.from_iterable(values))
    if labels is not None:
        tensor["parameters"] = {"labels": labels}
    tensor["data"] = values
    return tensor


def model_metadata(name: str, model: TextClassifier) -> dict[str, Any]:
    """Return what ``GET /v2/models/NAME`` answers."""
    inputs = [{"name": column, "datatype": "BYTES", "shape": [-1]} for column in model.text_columns]
    outputs = _outputs(model.task, [])
    for tensor in outputs:
        tensor["shape"][0] = -1
        del tensor["data"]
    return {
        "name": name,
        "versions": [model.version],
        "platform": "tuneline_onnx",
        "inputs": inputs,
        "outputs": outputs,
    }
