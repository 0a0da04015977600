"""The column of ``tuneline predict --why``: the words without which the answer for a row changes most."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.decisions.answer_rule import AnswerRule
from tuneline.model.encoding import EncodingError
from tuneline.onnx.exported_model import ExportedModel
from tuneline.program.occlusion import answer_outputs, word_effects
from tuneline.readers.inputs import Row
from tuneline.tasks import Task

WHY_COLUMN = "why"
WHY_WORDS = 5
"""Words of a row that are named at most."""
WHY_TYPE = pa.list_(
    pa.struct(
        {
            "word": pa.string(),
            "effect": pa.float32(),
            "label": pa.string(),
            "column": pa.string(),
            "start": pa.int64(),
            "end": pa.int64(),
        }
    )
)
"""Arrow type of the column: ``WordEffect`` of each word."""


def why_values(
    model: ExportedModel,
    rows: Sequence[Row],
    scores: NDArray[np.float64],
    rule: AnswerRule,
    *,
    text_columns: Sequence[str],
    batch_size: int,
) -> Iterator[list[dict[str, Any]]]:
    """Yield the value of the column for each row; of one that gets no answer, for what it would have been.

    Args:
        model: The model.
        rows: The rows.
        scores: Probabilities or numbers of the rows, ``(rows, outputs)``.
        rule: What decides about answers.
        text_columns: Names of the text columns in the input.
        batch_size: Rows of a forward pass.

    Raises:
        EncodingError: The tokenizer cannot encode a row without one of its words.
    """
    columns = dict(zip(model.text_columns, text_columns, strict=True))
    answers = rule.answers(model.task, scores)
    for number, row in enumerate(rows):
        outputs = answer_outputs(model.task, scores[number], answers.labels[number])
        try:
            occlusion = word_effects(model, row.texts, outputs, batch_size=batch_size)
        except EncodingError as error:
            error.row = number
            raise
        words = []
        for effect in occlusion.largest(WHY_WORDS):
            words.append(
                {
                    "word": effect.word,
                    "effect": effect.effect,
                    "label": effect.label,
                    "column": columns[effect.text_column],
                    "start": effect.start,
                    "end": effect.end,
                }
            )
        yield words


def why_text(task: Task, words: Sequence[Mapping[str, Any]]) -> str:
    """Return a value of the column as a CSV file has it, such as ``never -0.312; parcel -0.12``."""
    parts = []
    for word in words:
        part = f"{word['word']} {word['effect']:+.3g}"
        if task.has_classes and not task.one_class:
            part += f" ({word['label']})"
        parts.append(part)
    return "; ".join(parts)
