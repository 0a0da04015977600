"""What all servers speak, so that their requests and answers are equal: ``/predict`` of TEI.

``{"inputs": "text"}`` or, for a pair, ``{"inputs": ["text a", "text b"]}`` is one row. The answer is the list
of all classes with their probabilities, the most probable one first.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuneline.serve.text_classifier import TextClassifier

MAX_BATCH, WAIT_SECONDS = 16, 0.002
"""Most rows of a batch, and how long an engine with batches of its own waits for them."""


def server_parser() -> argparse.ArgumentParser:
    """Return a parser of the options that each server gets."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--precision", required=True)
    parser.add_argument("--port", type=int, required=True)
    return parser


def row_of(request: dict[str, Any]) -> tuple[str, ...]:
    """Return the texts of a request."""
    inputs = request["inputs"]
    if isinstance(inputs, str):
        return (inputs,)
    return tuple(inputs)


def answer(class_names: Sequence[str], probabilities: Sequence[float]) -> list[dict[str, Any]]:
    """Return the answer for one row."""
    classes = []
    for name, probability in zip(class_names, probabilities, strict=True):
        classes.append({"label": name, "score": float(probability)})
    return sorted(classes, key=lambda each: -each["score"])


def answers(model: TextClassifier, rows: Sequence[tuple[str, ...]]) -> list[list[dict[str, Any]]]:
    """Predict rows as one batch; return the answer for each."""
    outputs = model.outputs(model.encode(rows), len(rows))
    return [answer(model.task.class_names, probabilities) for probabilities in outputs]
