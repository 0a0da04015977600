"""The columns of ``tuneline predict``: those that it reads, the prediction by kind of task, and others."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.core.stage.records import NUMBER_DIGITS, rounded_numbers, rounded_probabilities
from tuneline.judge.decisions.rule import PLAIN, AnswerRule, Answers
from tuneline.model.tasks import Multilabel, Regression, Task
from tuneline.model.tasks.columns import staged_type
from tuneline.model.tasks.task import Floats
from tuneline.model.tokens.encoding import EncodingError
from tuneline.onnx.exported_model import ExportedModel
from tuneline.serve.occlusion import answer_outputs, largest_effects, word_effects


@dataclass(frozen=True, slots=True)
class Row:
    """A row that can be predicted.

    Attributes:
        number: Its number in the input, from 1, without header and empty lines.
        texts: One or two texts.
        kept: Values to copy.
    """

    number: int
    texts: tuple[str, ...]
    kept: tuple[Any, ...]

    @property
    def characters(self) -> int:
        """Length of all its texts."""
        return sum(len(value) for value in self.texts + self.kept if isinstance(value, str))


@dataclass(frozen=True)
class InputColumns:
    """The columns that are read: those of the model, by their names in the input, and those to copy.

    Where ``kept`` is ``None``, all columns of a file are copied.
    """

    texts: tuple[str, ...]
    kept: tuple[str, ...] | None = ()


ABSTENTION_COLUMNS = {"abstained": pa.bool_(), "reason": pa.string()}
"""Whether a row gets no answer, and why; with their Arrow types."""
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


def prediction_columns(task: Task) -> dict[str, pa.DataType]:
    """Return the columns of the prediction with their Arrow types.

    They are the class and its probability, the labels, or the number with the ends of its interval, if it has
    one; then the probability of each class.
    """
    columns = {task.prediction_column: staged_type(task)}
    if task.one_class:
        columns["probability"] = pa.float64()
    if isinstance(task, Regression) and task.half_width is not None:
        columns |= {"prediction_low": pa.float64(), "prediction_high": pa.float64()}
    return columns | {f"probability_{name}": pa.float64() for name in task.class_names}


def prediction_rows(task: Task, scores: Floats, answers: Answers) -> Iterator[list[Any]]:
    """Yield the values of ``prediction_columns`` for each row of scores, rounded, with its answer."""
    if isinstance(task, Regression):
        if task.half_width is not None:
            scores = np.hstack([scores, scores - task.half_width, scores + task.half_width])
        yield from rounded_numbers(scores, NUMBER_DIGITS).tolist()
        return
    for label, values in zip(answers.labels.tolist(), rounded_probabilities(scores).tolist(), strict=True):
        row: list[Any] = [task.value(label)]
        if task.one_class:
            row.append(values[label])
        yield row + values


def json_prediction(task: Task, values: Sequence[Any]) -> dict[str, Any]:
    """Return the values of ``prediction_columns`` for one row as an object, with probabilities by class."""
    classes = len(task.class_names)
    own = len(values) - classes
    cells = dict(zip(list(prediction_columns(task))[:own], values[:own], strict=True))
    if classes:
        cells["probabilities"] = dict(zip(task.class_names, values[own:], strict=True))
    return cells


def cell_text(task: Task, value: Any) -> Any:
    """Return a value of ``prediction_columns`` as a CSV file has it: several labels are joined."""
    if isinstance(value, list) and isinstance(task, Multilabel):
        return task.separator.join(value)
    return value


def why_text(task: Task, words: Sequence[Mapping[str, Any]]) -> str:
    """Return a value of ``WHY_COLUMN`` as a CSV file has it, such as ``never -0.312; parcel -0.12``."""
    parts = []
    for word in words:
        part = f"{word['word']} {word['effect']:+.3g}"
        if task.label_shape:
            part += f" ({word['label']})"
        parts.append(part)
    return "; ".join(parts)


@dataclass(frozen=True)
class OutputColumns:
    """The columns of an output.

    Attributes:
        task: What is predicted.
        kept: Columns that are copied from the input.
        rule: What decides about answers; ``ABSTENTION_COLUMNS`` are added if some rows may get none.
        why: True if ``WHY_COLUMN`` is added.
    """

    task: Task
    kept: tuple[str, ...]
    rule: AnswerRule = PLAIN
    why: bool = False

    @property
    def predicted(self) -> dict[str, pa.DataType]:
        """The columns of the prediction."""
        return prediction_columns(self.task)

    @property
    def added(self) -> dict[str, pa.DataType]:
        """The columns after the prediction."""
        columns = dict(ABSTENTION_COLUMNS) if self.rule.abstains else {}
        if self.why:
            columns[WHY_COLUMN] = WHY_TYPE
        return columns

    @property
    def copied(self) -> tuple[str, ...]:
        """The columns before the prediction.

        A kept name that another column of the output has gets the prefix ``input_``. A blank name gets it,
        too: in a header, it would be no name, and readers number such columns.
        """
        names = ["row"]
        taken = {"row", "probabilities", *self.predicted, *self.added}
        for name in self.kept:
            while name in taken or not name.strip():
                name = f"input_{name}"  # noqa: PLW2901 - until it is free
            names.append(name)
            taken.add(name)
        return tuple(names)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, in order."""
        return (*self.copied, *self.predicted, *self.added)


def why_values(
    model: ExportedModel,
    rows: Sequence[Row],
    scores: NDArray[np.float64],
    rule: AnswerRule,
    *,
    text_columns: Sequence[str],
    batch_size: int,
) -> list[list[dict[str, Any]]]:
    """Return the value of ``WHY_COLUMN`` for each row; without an answer, for what it would have been.

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
    values = []
    for number, row in enumerate(rows):
        outputs = answer_outputs(model.task, scores[number], answers.labels[number])
        try:
            effects = word_effects(model, row.texts, outputs, batch_size=batch_size)
        except EncodingError as error:
            error.row = number
            raise
        words = []
        for effect in largest_effects(effects, WHY_WORDS):
            words.append({**asdict(effect), "column": columns[effect.column]})
        values.append(words)
    return values
