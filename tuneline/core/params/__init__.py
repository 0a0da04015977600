"""``params.yaml``, typed: every parameter of the pipeline, checked before anything runs."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator

from tuneline.core.params.data import DataParams, TokenizeParams
from tuneline.core.params.evaluate import (
    CompareParams,
    DecideParams,
    EvaluateParams,
    ExportParams,
    ValidateParams,
)
from tuneline.core.params.section import FunctionName, Section
from tuneline.core.params.train import ModelParams, RunParams, TrainParams
from tuneline.core.runtime.errors import ParamsError

__all__ = [
    "CompareParams",
    "DataParams",
    "DecideParams",
    "EvaluateParams",
    "ExportParams",
    "ModelParams",
    "Params",
    "RunParams",
    "TokenizeParams",
    "TrainParams",
    "ValidateParams",
]


class Params(Section):
    """All parameters of ``params.yaml``. Read it with ``tuneline.core.params.loading.load_params``."""

    seed: Annotated[int, Field(ge=0, lt=2**32)] = 42
    """Seed of every random choice: rows, new weights, order of examples, dropout, calibration rows."""
    data: DataParams
    """The data set: source, splits, columns and labels."""
    tokenize: TokenizeParams
    """The tokenizer, and the length of a row."""
    model: ModelParams
    """The checkpoint to fine-tune, or the configuration of a new model."""
    validate_: ValidateParams = Field(alias="validate")
    """Severities and thresholds of the data checks, by the name of the check. docs/data-checks.md has the
    reasons for the defaults.
    """
    train: TrainParams
    """Training: length, optimizer, loss, precision, and the choice of the weights to publish."""
    run: RunParams
    """How often a training is saved, and where work is done. No out depends on it."""
    evaluate: EvaluateParams
    """The reported split, its metrics and its slices."""
    export: ExportParams
    """The ONNX models."""
    compare: CompareParams
    """Tolerances for the comparison of the ONNX models with the trained model."""
    decide: DecideParams = DecideParams()
    """What is done with the probabilities of the published models."""

    @property
    def training_seed(self) -> int:
        """Seed of the training: ``train.seed``, or ``seed``."""
        return self.seed if self.train.seed is None else self.train.seed

    @property
    def functions(self) -> list[tuple[str, FunctionName]]:
        """Parameter and name of each function of the user, in the folder ``project/``."""
        functions = []
        for key, text in [("train.loss", self.train.loss), ("train.metric", self.train.metric)]:
            if text is not None and FunctionName.matches(text):
                functions.append((key, FunctionName.parse(key, text)))
        functions += [("validate.own", name) for name in self.validate_.functions]
        functions += [("evaluate.metrics", name) for name in self.evaluate.metric_functions]
        functions += [("evaluate.slices", name) for name in self.evaluate.slice_functions]
        return functions

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        chooses = self._chooses_on_validation()
        if chooses is not None and self.evaluate.split == "validation":
            raise ValueError(
                f"{chooses} chooses on the validation split, and evaluate.split reports on it; report on"
                " test, and take validation from train (data.split: {validation: 0.1, test: 0})"
            )

        answers_by_maximum = self.tokenize.long_text == "windows" and self.tokenize.windows.answer == "max"
        if self.model.head is not None and answers_by_maximum:
            raise ValueError(
                f"tokenize.windows.answer: 'max' does not fit model.head: {self.model.head!r}, whose linear"
                " model is fitted to the mean of the vectors of a document's windows; set the answer to mean,"
                " or model.head to null"
            )

        _ = self.functions  # their names are checked
        self._check_labels()
        return self

    def _chooses_on_validation(self) -> str | None:
        """Return the parameter that lets the validation split choose something of the model, if one does."""
        if self.train.keep == "best":
            return "train.keep: 'best'"
        if self.model.head is not None:
            return f"model.head: {self.model.head!r}"
        if self.data.task == "multilabel" and self.train.thresholds.choose != "half":
            return f"train.thresholds.choose: {self.train.thresholds.choose!r}"
        return None

    def _check_labels(self) -> None:
        """Check what only fits some kinds of labels, and the classes that are named here."""
        task = self.data.task
        if task == "regression" and (self.train.class_weights or self.train.label_smoothing):
            key = "class_weights" if self.train.class_weights else "label_smoothing"
            raise ValueError(f"train.{key}: data.task is regression, which has no classes; remove it")
        has_classes_of_one_text = task == "classification" and len(self.data.text_columns) == 1
        if self.train.contrastive and not (has_classes_of_one_text and self.model.checkpoint):
            raise ValueError(
                "train.contrastive: it is for one class per row of one text, and a model.checkpoint; set it"
                " to 0.0"
            )
        if task == "multilabel" and self.train.class_weights and self.train.loss:
            raise ValueError(
                "train.class_weights: with several labels per row, a loss of your own cannot be weighted; set"
                " it to null, and weight the labels in the function"
            )
        if task != "classification" and self.decide.costs is not None:
            raise ValueError(
                f"decide.costs: it is for one class per row, and data.task is {task}; set it to null (the"
                " thresholds of several labels are set by train.thresholds)"
            )
        if self.data.label_names:
            self.check_class_names(self.data.label_names)

    def check_class_names(self, names: Sequence[str]) -> None:
        """Check the classes that parameters name, as soon as those of the data are known.

        Raises:
            ParamsError: One is not a class of the data.
        """
        named = {"decide.costs.of": self.decide.named_classes}
        if isinstance(self.train.class_weights, dict):
            named["train.class_weights"] = set(self.train.class_weights)
        for key, classes in named.items():
            unknown = sorted(classes - set(names))
            if unknown:
                raise ParamsError(
                    f"{key}: {unknown[0]!r} is not a class of the data: {', '.join(names)}.",
                    "Correct the name, as data.label_names has it.",
                )
