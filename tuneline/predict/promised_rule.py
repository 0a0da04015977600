"""The rule by which ``tuneline predict --risk`` answers: which rows, and what that promises."""

from dataclasses import dataclass
from pathlib import Path

from tuneline.decisions.rule import PLAIN, AnswerRule
from tuneline.onnx.evidence_file import published_evidence
from tuneline.onnx.exported_model import ExportedModel
from tuneline.promises.abstention import Abstention, NoPromiseError, lowest_risk, promised_abstention
from tuneline.runtime.errors import StageError
from tuneline.runtime.terminal import say


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
        raise StageError("--plain: every row gets an answer, and --risk leaves out some.", None)
    if not model.task.has_classes:
        raise StageError(
            "--risk: the labels of this model are numbers, which are never exactly right.",
            "The columns prediction_low and prediction_high have the interval of 90 % around each.",
        )
    evidence = published_evidence(file, model.classifier.metadata["precision"])
    try:
        promise = promised_abstention(evidence, required.risk, required.certainty)
    except NoPromiseError as error:
        possible = lowest_risk(evidence, required.certainty)
        hint = "Label more rows of the reported split."
        if possible is not None:
            hint = (
                f"The lowest risk that these rows can promise is {possible.risk:.3g}, with"
                f" {possible.coverage:.0%} of them answered; or label more rows of the reported split."
            )
        raise StageError(f"--risk of all answers: {error}.", hint) from None
    say(f"--risk of all answers: {_sentence(promise, required.certainty)}", error=True)
    return AnswerRule(model.rule.costs, promise.threshold)


def _sentence(promise: Abstention, certainty: float) -> str:
    """Return what a promise says."""
    above = "all" if promise.threshold < 0 else f"those with a confidence above {promise.threshold:.4f}"
    return (
        f"of {promise.rows:,} independent rows of the reported split, {above} are answered:"
        f" {promise.answered:,} ({promise.coverage:.1%}), {promise.wrong:,} of them wrong. So at most"
        f" {100 * promise.risk:.3g} % of the answers to new rows of the same kind are wrong, with"
        f" {100 * certainty:.3g} % certainty."
    )
