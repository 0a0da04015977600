"""Requests and answers of text-embeddings-inference, as ``POST /predict`` and ``/`` have them.

https://github.com/huggingface/text-embeddings-inference, its ``router/src/http/types.rs``. A list of two
texts is one pair there, and a list of lists is a batch. For a model of one text, that makes a batch of two
texts a pair that it never saw, so it is refused. So are the options of other servers that this one does not
read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
"""Name that the number of a regression has here."""
TEI_OPTIONS = ("truncate", "truncation_direction", "raw_scores", "parameters")
"""Options of a request; the client of huggingface_hub writes its own into ``parameters``."""


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
    refuse_unread(body.get("parameters") or {}, (), "parameters: ")
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
