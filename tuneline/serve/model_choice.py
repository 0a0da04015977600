"""The model that a command predicts with, and the rows that it answers."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuneline.core.runtime.errors import StageError
from tuneline.core.runtime.terminal import say
from tuneline.judge.decisions.rule import PLAIN, AnswerRule
from tuneline.onnx.exported_model import ExportedModel
from tuneline.onnx.usage import exported_file

if TYPE_CHECKING:
    from tuneline.judge.decisions.abstention import Abstention


@dataclass(frozen=True)
class ModelChoice:
    """The model of a prediction.

    Attributes:
        path: A folder that the stage ``compare`` published, or one ONNX file in it.
        precision: Precision of the model in a folder; ``None`` for fp32.
        threads: Threads per operator; ``None`` for all cores that the process may use.
    """

    path: Path
    precision: str | None = None
    threads: int | None = None

    @functools.lru_cache(maxsize=1)  # noqa: B019 - a worker loads the model once for all its tasks
    def load(self) -> ExportedModel:
        """Load the model, once in a process."""
        return ExportedModel.load(self.path, self.precision, self.threads)

    def file(self) -> Path:
        """Return the ONNX file; a ``StageError`` if it or another file of the model is missing or damaged."""
        return exported_file(self.path, self.precision)


@dataclass(frozen=True)
class RequiredRisk:
    """What a user requires of the answers.

    Attributes:
        risk: Largest share of wrong answers.
        certainty: Probability with which that holds.
    """

    risk: float
    certainty: float


def promised_rule(
    model: ExportedModel, file: Path, required: RequiredRisk | None, *, plain: bool = False
) -> AnswerRule:
    """Return the rule that keeps what is required, and print what it promises; else that of the model.

    Args:
        model: The model.
        file: Its file.
        required: What is required of its answers, if anything.
        plain: True for the most probable class of each row, whatever errors cost.

    Raises:
        StageError: It cannot be promised, or the labels of the model are numbers.
    """
    if required is None:
        return PLAIN if plain else model.rule
    if plain:
        raise StageError("--plain: every row gets an answer, and --risk leaves out some.")
    from tuneline.judge.decisions.abstention import NoPromiseError, promised_abstention
    from tuneline.onnx.evidence_file import published_evidence

    if not model.task.has_classes:
        raise StageError(
            "--risk: the labels of this model are numbers, which are never exactly right.",
            "The columns prediction_low and prediction_high have the interval of 90 % around each.",
        )
    evidence = published_evidence(file, model.classifier.metadata["precision"])
    try:
        promise = promised_abstention(evidence, required.risk, required.certainty)
    except NoPromiseError as error:
        hint = (
            "The page reports/index.html of the project shows what these rows can promise. For less,"
            " label more of the reported split."
        )
        raise StageError(f"--risk of all answers: {error}.", hint) from None
    rows = "independent rows of the reported split"
    if model.rule.abstains:
        rows += " that decide.costs leaves to be answered"
    say(f"--risk of all answers: {_sentence(promise, rows, required.certainty)}", error=True)
    return AnswerRule(model.rule.costs, promise.threshold)


def _sentence(promise: "Abstention", rows: str, certainty: float) -> str:
    """Return what a promise says; ``rows`` are those that show it, in words."""
    above = "all" if promise.threshold < 0 else f"those with a confidence above {promise.threshold:.4f}"
    return (
        f"of {promise.rows:,} {rows}, {above} are answered:"
        f" {promise.answered:,} ({promise.coverage:.1%}), {promise.wrong:,} of them wrong. So at most"
        f" {100 * promise.risk:.3g} % of the answers to new rows of the same kind are wrong, with"
        f" {100 * certainty:.3g} % certainty."
    )
