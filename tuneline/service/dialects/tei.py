"""The dialect of text-embeddings-inference: ``POST /predict``.

https://github.com/huggingface/text-embeddings-inference, its ``router/src/http/types.rs``.

A list of two texts is one pair there, and a list of lists is a batch. For a model of one text, that makes a
batch of two texts a pair that it never saw, so it is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuneline.program.text_classifier import TextClassifier
from tuneline.service.answering import AnsweredRows
from tuneline.service.dialects.rows import row_example, texts_of_request
from tuneline.service.errors import RequestError, invalid, unprocessable
from tuneline.service.limits import ServiceLimits
from tuneline.tasks import Task


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
        RequestError: It is none, or its rows are no texts.
    """
    if not isinstance(body, Mapping) or "inputs" not in body:
        raise invalid(f'The body is {{"inputs": {row_example(model.text_columns)}}}.')
    inputs = body["inputs"]
    is_batch = isinstance(inputs, list) and any(isinstance(row, (list, Mapping)) for row in inputs)
    if isinstance(inputs, list) and not is_batch:
        _refuse_texts(inputs, model.text_columns)
    rows = inputs if is_batch else [inputs]

    side = body.get("truncation_direction")
    if side is not None and str(side).lower() not in {"left", "right"}:
        raise invalid("truncation_direction is left or right.")
    return TeiRequest(
        texts=texts_of_request(rows, model.text_columns, limits),
        is_batch=is_batch,
        truncate=_flag(body, "truncate", default=True),
        raw_scores=_flag(body, "raw_scores", default=False),
    )


def refuse_other_side(body: Mapping[str, Any], answered: AnsweredRows) -> None:
    """Refuse a side of truncation that the model was not trained with, where it would matter.

    Raises:
        RequestError: A row is longer than what the model reads.
    """
    side = str(body.get("truncation_direction") or answered.model.encoder.truncation_side).lower()
    if side == answered.model.encoder.truncation_side:
        return
    for number, prediction in enumerate(answered.predictions):
        if prediction.truncated:
            raise unprocessable(
                f"row {number} is {answered.model.unread}, and the model was trained with texts that are"
                f" truncated {answered.model.encoder.truncation_side}: leave truncation_direction out."
            )


def tei_answer(request: TeiRequest, answered: AnsweredRows) -> list[Any]:
    """Return the classes of each row with their scores, the highest first."""
    rows = []
    for prediction, logits in zip(answered.predictions, answered.logits, strict=True):
        names = list(prediction.scores) or [NUMBER]
        values = list(prediction.scores.values()) or [prediction.number or 0.0]
        if request.raw_scores:
            values = logits.tolist()
        items = [{"score": score, "label": name} for name, score in zip(names, values, strict=True)]
        rows.append(sorted(items, key=lambda item: -item["score"]))  # type: ignore[operator]
    return rows if request.is_batch else rows[0]


NUMBER = "LABEL_0"
"""Name that the number of a regression has in this dialect."""


def tei_info(model: TextClassifier, name: str, limits: Mapping[str, int]) -> dict[str, Any]:
    """Return what ``GET /info`` answers."""
    names = class_labels(model.task)
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
        "text_columns": list(model.text_columns),
        "task": model.task.kind,
        **limits,
    }


def class_labels(task: Task) -> Sequence[str]:
    """Return the names of the outputs of a model."""
    return task.class_names if task.has_classes else [NUMBER]


def _refuse_texts(inputs: list[Any], columns: tuple[str, ...]) -> None:
    """Refuse a list of texts that is no row of the model."""
    if len(inputs) == len(columns):
        return
    if not inputs:
        raise RequestError(400, "There is no row.", "Empty")
    if len(columns) == 1:
        raise unprocessable(
            'A list of texts is one row here, of as many texts: this model reads one. A batch is {"inputs":'
            ' [["first text"], ["second text"]]}.'
        )
    example = row_example(columns)
    raise unprocessable(
        f"A list of texts is one row here, of {len(columns)} texts; this one has {len(inputs)}. A batch is"
        f' {{"inputs": [{example}, {example}]}}.'
    )


def _flag(body: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise invalid(f"{name} is true or false.")
    return value
