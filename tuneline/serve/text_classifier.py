"""A text classifier for programs: rows as they have them in, typed predictions out."""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.judge.decisions.rule import Answers
from tuneline.model.tasks import Regression, Task
from tuneline.model.tokens.encoding import EncodingError
from tuneline.onnx.exported_model import EncodedRows, ExportedModel
from tuneline.serve.program_rows import (
    BATCH_SIZE,
    WINDOW,
    ProgramRow,
    characters_of,
    texts_of_rows,
    windows,
)

PROMOTED_MODELS = "tuneline.core.repository.promoted_models"
"""Module that finds the models of the registry."""


@dataclass(frozen=True)
class Prediction:
    """The prediction for one row.

    Attributes:
        version: Which model predicted: the name of a version in the registry, else the start of a hash of
            the model and its decisions. ``tuneline show VERSION`` explains it.
        label: The class; ``None`` if the model has several labels or predicts numbers, or gives no answer.
        labels: The labels of a model of several; ``None`` as above.
        number: The number of a regression.
        interval: The ends of its interval of 90 %, if the model has one.
        probability: Probability that the answer is right, as the model says; ``None`` for a number.
        scores: Probability of each class or label by name; empty for a number, or if the model gave none.
        reason: Why there is no answer; ``None`` if there is one.
        truncated: True if the row is longer than what the model reads.
    """

    version: str
    label: str | None = None
    labels: tuple[str, ...] | None = None
    number: float | None = None
    interval: tuple[float, float] | None = None
    probability: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    reason: str | None = None
    truncated: bool = False

    @property
    def abstained(self) -> bool:
        """True if there is no answer."""
        return self.reason is not None


def answer_fields(task: Task, scores: NDArray[np.float64], answers: Answers) -> Iterator[dict[str, Any]]:
    """Yield the fields of ``Prediction`` that depend on the kind of task, for each row of scores."""
    if isinstance(task, Regression):
        for (number,) in scores.tolist():
            interval = None
            if task.half_width is not None:
                interval = (number - task.half_width, number + task.half_width)
            yield {"number": number, "interval": interval}
        return
    rows = zip(answers.labels.tolist(), answers.confidence.tolist(), scores.tolist(), strict=True)
    for label, probability, values in rows:
        answer: Any = task.value(label)
        if isinstance(answer, list):
            answer = tuple(answer)
        yield {
            task.prediction_column: answer,
            "probability": probability,
            "scores": dict(zip(task.names, values, strict=True)),
        }


@dataclass(frozen=True)
class TextClassifier(ExportedModel):
    """An exported model with what a program needs.

    ::

        model = TextClassifier.load("models/onnx")
        prediction = model.predict_one("where is my parcel")
        print(prediction.label, prediction.probability)
    """

    @classmethod
    def production(
        cls,
        repository: Path | str = ".",
        precision: str | None = None,
        threads: int | None = None,
        *,
        stage: str = "production",
    ) -> Self:
        """Load the model that is in production, whose predictions name its version.

        It needs git, and DVC unless the files are in the cache of a checkout.

        Args:
            repository: Folder of a checkout, or the address of a repository.
            precision: As for ``load``.
            threads: As for ``load``.
            stage: Stage of the registry.

        Raises:
            StageError: No model is in the stage, or its files cannot be fetched or are damaged.
        """
        # Loaded by name, as it is not part of what stages and programs with a folder of models depend on: it
        # reads tags and DVC's files.
        models = importlib.import_module(PROMOTED_MODELS).ModelRepository(str(repository))
        version = models.version(stage)
        with models.files(version) as folder:
            return replace(cls.load(folder, precision, threads), version=version.name)

    def predict_one(self, row: ProgramRow) -> Prediction:
        """Predict one row: a text, a tuple of as many texts as the model reads, or a mapping.

        Raises:
            DataError: As ``predict``.
        """
        (prediction,) = self.predict([row])
        return prediction

    def predict(self, rows: Any, batch_size: int = BATCH_SIZE) -> list[Prediction]:
        """Predict rows as ``tuneline predict`` does.

        Args:
            rows: A list or another iterable of rows, each as for ``predict_one``; or a table of pandas or
                Arrow with the columns of the model.
            batch_size: Rows of a forward pass at most; rows of similar length share one.

        Raises:
            DataError: A row or a column is missing, is no text, or has only white space; or the tokenizer
                cannot encode it.
        """
        predictions: list[Prediction] = []
        texts = texts_of_rows(rows, self.text_columns)
        for window in windows(texts, batch_size, WINDOW, characters_of):
            try:
                encoded = self.encode(window)
            except EncodingError as error:
                raise error.at(f"rows[{len(predictions) + error.row}]") from None
            truncated = self.truncated_rows(window, encoded)
            predictions += self.predictions(self.outputs(encoded, batch_size), truncated)
        return predictions

    def truncated_rows(self, texts: Sequence[tuple[str, ...]], encoded: EncodedRows) -> NDArray[np.bool_]:
        """Return which rows are longer than what the model reads, ``(rows,)``: mostly none is."""
        truncated = np.zeros(len(texts), bool)
        if encoded.truncated == 0:
            return truncated
        for row in np.flatnonzero(encoded.lengths >= self.max_length).tolist():
            truncated[row] = self.encode([texts[row]]).truncated
        return truncated

    def predictions(self, scores: NDArray[np.float64], truncated: NDArray[np.bool_]) -> list[Prediction]:
        """Return the predictions for rows.

        Args:
            scores: What ``outputs`` returned for them.
            truncated: Which are longer than what the model reads, ``(rows,)``.
        """
        answers = self.rule.answers(self.task, scores)
        reasons = self.rule.reasons(answers)
        predictions = []
        for number, fields in enumerate(answer_fields(self.task, scores, answers)):
            reason = reasons[number]
            given = fields
            if reason is not None:
                given = {**fields, "label": None, "labels": None}  # so that no program takes it for an answer
            if not answers.is_finite[number]:
                given = {}
            is_truncated = bool(truncated[number])
            predictions.append(Prediction(self.version, reason=reason, truncated=is_truncated, **given))
        return predictions
