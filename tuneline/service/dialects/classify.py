"""The dialect of vLLM and SGLang: ``POST /classify`` and ``/v1/classify``.

https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html, "Classification API".
"""

import time
from collections.abc import Mapping
from typing import Any

from tuneline.program.prediction import Prediction
from tuneline.program.text_classifier import TextClassifier
from tuneline.service.answering import AnsweredRows
from tuneline.service.dialects.rows import row_example, texts_of_request
from tuneline.service.errors import RequestError, invalid
from tuneline.service.limits import ServiceLimits


def read_classify(
    body: Any, model: TextClassifier, name: str, limits: ServiceLimits
) -> list[tuple[str, ...]]:
    """Return the texts of each row of a body.

    Raises:
        RequestError: It is no request, its rows are no texts, or it asks for another model.
    """
    if not isinstance(body, Mapping) or "input" not in body:
        raise invalid(f'The body is {{"input": {row_example(model.text_columns)}}}, or a list of these.')
    asked = body.get("model")
    if asked is not None and asked not in (name, model.version):
        raise RequestError(404, f"This service has the model {name}; leave model out.", "Validation")
    rows = body["input"]
    if isinstance(rows, list) and not _is_pair(rows, model.text_columns):
        return texts_of_request(rows, model.text_columns, limits)
    return texts_of_request([rows], model.text_columns, limits)


def _is_pair(rows: list[Any], columns: tuple[str, ...]) -> bool:
    """Return True if a list of texts is one row: of a model of pairs, where a text is none."""
    return len(columns) > 1 and bool(rows) and all(isinstance(row, str) for row in rows)


def classify_answer(name: str, answered: AnsweredRows, number: int) -> dict[str, Any]:
    """Return the answer to a request, which is the ``number``-th of the service."""
    data = []
    for index, prediction in enumerate(answered.predictions):
        data.append({"index": index, **_item(prediction)})
    return {
        "id": f"classify-{number}",
        "object": "list",
        "created": int(time.time()),
        "model": name,
        "version": answered.model.version,
        "data": data,
        "usage": {
            "prompt_tokens": answered.tokens,
            "total_tokens": answered.tokens,
            "completion_tokens": 0,
            "prompt_tokens_details": None,
        },
    }


def _item(prediction: Prediction) -> dict[str, Any]:
    """Return a row of the answer; a model of several labels and a regression have more than the dialect."""
    item: dict[str, Any] = {
        "label": prediction.label,
        "probs": list(prediction.scores.values()),
        "num_classes": len(prediction.scores),
    }
    if prediction.labels is not None:
        item["labels"] = list(prediction.labels)
    if prediction.number is not None:
        item["number"] = prediction.number
        item["interval"] = prediction.interval
    if prediction.reason is not None:
        item["reason"] = prediction.reason
    return item
