"""The service's own dialect: everything that a ``Prediction`` has, and why a row got its answer.

``POST /v1/predictions`` takes ``{"rows": [ROW, ...]}``, and ``POST /v1/why`` takes ``{"row": ROW}``. A row is
a text, a list of as many texts as the model reads, or an object of its text columns.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tuneline.program.occlusion import Occlusion, WordEffect
from tuneline.program.text_classifier import TextClassifier
from tuneline.service.answering import AnsweredRows
from tuneline.service.dialects.rows import row_example, texts_of_request
from tuneline.service.errors import invalid
from tuneline.service.limits import ServiceLimits


def read_prediction_rows(body: Any, model: TextClassifier, limits: ServiceLimits) -> list[tuple[str, ...]]:
    """Return the texts of each row of a request for predictions.

    Raises:
        RequestError: The body is no request, or its rows are no texts.
    """
    rows = body.get("rows") if isinstance(body, Mapping) else None
    if not isinstance(rows, list):
        raise invalid(f'The body is {{"rows": [{row_example(model.text_columns)}]}}.')
    return texts_of_request(rows, model.text_columns, limits)


def predictions_answer(answered: AnsweredRows) -> dict[str, Any]:
    """Return the answer to a request for predictions."""
    predictions = [asdict(prediction) for prediction in answered.predictions]
    return {"version": answered.model.version, "predictions": predictions}


def read_why(body: Any, model: TextClassifier, limits: ServiceLimits) -> tuple[str, ...]:
    """Return the texts of the row that is to be explained.

    Raises:
        RequestError: The body is no request, or its row is no text.
    """
    if not isinstance(body, Mapping) or "row" not in body:
        raise invalid(f'The body is {{"row": {row_example(model.text_columns)}}}.')
    (texts,) = texts_of_request([body["row"]], model.text_columns, limits)
    return texts


def why_answer(answered: AnsweredRows, occlusion: Occlusion) -> dict[str, Any]:
    """Return the prediction for a row, and the effects of its words, the largest first."""
    (prediction,) = answered.predictions
    return {
        "version": answered.model.version,
        "prediction": asdict(prediction),
        "words": occlusion.words,
        "effects": [_effect(effect) for effect in occlusion.effects],
    }


def _effect(effect: WordEffect) -> dict[str, Any]:
    """Return an effect with the names that it has in files of predictions (``--why``)."""
    return {
        "word": effect.word,
        "effect": effect.effect,
        "label": effect.label,
        "column": effect.text_column,
        "start": effect.start,
        "end": effect.end,
    }
