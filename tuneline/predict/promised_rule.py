"""The rule by which ``tuneline predict --risk`` answers: which rows, and what that promises."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuneline.decisions.answer_rule import PLAIN, AnswerRule
from tuneline.decisions.evidence import Evidence
from tuneline.onnx.evidence_file import published_evidence
from tuneline.onnx.exported_model import ExportedModel
from tuneline.promises.abstention import Abstention, NoPromiseError, lowest_risk, promised_abstention
from tuneline.runtime.errors import StageError
from tuneline.runtime.terminal import say


@dataclass(frozen=True)
class RequiredRisk:
    """What a user requires of the answers.

    Attributes:
        risk: Largest share of wrong answers; ``None``: nothing is required of all answers.
        class_risks: The same of the answers of single classes, by name.
        certainty: Probability with which each of these holds.
    """

    risk: float | None
    class_risks: Mapping[str, float]
    certainty: float

    @classmethod
    def parse(cls, risk: float | None, class_risks: Sequence[str], certainty: float) -> "RequiredRisk":
        """Return what the options require; a class risk is ``NAME=RISK``."""
        by_name = {}
        for text in class_risks:
            name, equals, number = text.rpartition("=")
            try:
                value = float(number)
            except ValueError:
                value = 0.0
            if not equals or not name or not 0 < value < 1:
                raise StageError(
                    f"--class-risk: {text!r} is not NAME=RISK with a risk between 0 and 1.",
                    "For example --class-risk spam=0.01.",
                )
            by_name[name] = value
        return cls(risk, by_name, certainty)

    def __bool__(self) -> bool:
        return self.risk is not None or bool(self.class_risks)


def promised_rule(
    model: ExportedModel, file: Path, required: RequiredRisk, *, plain: bool = False
) -> AnswerRule:
    """Return the rule that keeps what is required, and print what it promises.

    Args:
        model: The model.
        file: Its file.
        required: What is required of its answers.
        plain: True for the most probable class of each row, whatever errors cost.

    Raises:
        StageError: It cannot be promised, or the labels of the model are numbers.
    """
    if plain and required:
        raise StageError(
            "--plain: every row gets an answer, and a promise leaves out some.",
            "Leave out one of the options.",
        )
    if plain:
        return PLAIN
    if not required:
        return model.rule
    if not model.task.has_classes:
        raise StageError(
            "--risk: the labels of this model are numbers, which are never exactly right.",
            "The columns prediction_low and prediction_high have the interval of 90 % around each.",
        )
    evidence = published_evidence(file, model.classifier.metadata["precision"])

    # all answers
    threshold = None
    if required.risk is not None:
        threshold = _threshold("--risk of all answers", evidence, required.risk, required.certainty)

    # answers of single classes
    class_thresholds = {}
    for name, risk in required.class_risks.items():
        number = _class_number(model, name)
        option = f"--class-risk of answers {name!r}"
        class_thresholds[number] = _threshold(option, evidence.of_class(number), risk, required.certainty)
    return AnswerRule(model.rule.costs, threshold, class_thresholds)


def _class_number(model: ExportedModel, name: str) -> int:
    """Return the id of a class that the model answers."""
    names = model.task.class_names
    if not model.task.one_class:
        raise StageError(
            "--class-risk: a row has several labels here.", "--risk is for whole sets of labels."
        )
    if name not in names:
        raise StageError(
            f"--class-risk: {name!r} is not an answer of the model.", f"It answers one of {', '.join(names)}."
        )
    return names.index(name)


def _threshold(option: str, evidence: Evidence, risk: float, certainty: float) -> float:
    """Return the confidence above which rows are answered, and print what that promises."""
    promise = _promise(option, evidence, risk, certainty)
    say(f"{option}: {_sentence(promise, certainty)}", error=True)
    return promise.threshold


def _sentence(promise: Abstention, certainty: float) -> str:
    """Return what a promise says."""
    above = "all" if promise.threshold < 0 else f"those with a confidence above {promise.threshold:.4f}"
    return (
        f"of {promise.rows:,} independent rows of the reported split, {above} are answered:"
        f" {promise.answered:,} ({promise.coverage:.1%}), {promise.wrong:,} of them wrong. So at most"
        f" {100 * promise.risk:.3g} % of the answers to new rows of the same kind are wrong, with"
        f" {100 * certainty:.3g} % certainty."
    )


def _promise(option: str, evidence: Evidence, risk: float, certainty: float) -> Abstention:
    """Return the promise; where it cannot be made, the error has the lowest risk that can be promised."""
    try:
        return promised_abstention(evidence, risk, certainty)
    except NoPromiseError as error:
        possible = lowest_risk(evidence, certainty)
        hint = "Label more rows of the reported split."
        if possible is not None:
            hint = (
                f"The lowest risk that these rows can promise is {possible.risk:.3g}, with"
                f" {possible.coverage:.0%} of them answered; or label more rows of the reported split."
            )
        raise StageError(f"{option}: {error}.", hint) from None
