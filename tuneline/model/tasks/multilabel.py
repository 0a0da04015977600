"""Several labels: any number of them for each row, also none.

In memory the labels of rows are numbers 0 or 1, int8 of shape ``(rows, labels)``; a row without a label to
learn from is -1 throughout. A model has one logit for each label. Its probability is the sigmoid of the
logit, divided by the temperature of the label, and a row has the labels whose probability is above their
threshold.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.core.runtime.errors import ParamsError
from tuneline.model.tasks.probabilities import finite_rows, likelihoods, sigmoid
from tuneline.model.tasks.task import UNLABELLED, Floats, Labels, Logits, NamedClasses

if TYPE_CHECKING:
    from tuneline.core.params.data import TaskKind
    from tuneline.model.tasks import Task

SEPARATORS = (";", "|", ",", "\t")
"""What may be between the labels of a row in text. The first that no name contains is written."""
NO_LABELS = "(none)"
"""What people read where a row has no labels."""
HALF = 0.5
"""Threshold of a label for which none was chosen."""


@dataclass(frozen=True)
class Multilabel(NamedClasses):
    """Labels are sets of names; a model has one logit for each name.

    Attributes:
        names: Names of the labels in the order of their ids.
        thresholds: Probability above which a row has a label, for each name; empty: 0.5. It is the
            probability without the temperature, which is what other programs have.
        at_least_one: True if a row without a label above its threshold gets the most probable one.
        temperatures: What the logits of each name are divided by before they become probabilities; empty: 1.
    """

    names: tuple[str, ...]
    thresholds: tuple[float, ...] = field(default=(), compare=False)
    at_least_one: bool = field(default=False, compare=False)
    temperatures: tuple[float, ...] = field(default=(), compare=False)

    kind: ClassVar["TaskKind"] = "multilabel"
    judged_as: ClassVar["TaskKind"] = "multilabel"
    one_class: ClassVar[bool] = False
    label_dtype: ClassVar[np.dtype[Any]] = np.dtype(np.int8)
    prediction_column: ClassVar[str] = "labels"

    # How outputs become predictions.

    @property
    def decisions(self) -> dict[str, Any]:
        """The thresholds and temperatures by name, and whether a row gets at least one label."""
        decisions: dict[str, Any] = {}
        if self.thresholds:
            decisions["thresholds"] = dict(zip(self.names, self.thresholds, strict=True))
            decisions["at_least_one"] = self.at_least_one
        if self.temperatures:
            decisions["temperatures"] = dict(zip(self.names, self.temperatures, strict=True))
        return decisions

    def with_decisions(self, decisions: Mapping[str, Any]) -> Self:
        """Return the task with these thresholds and temperatures."""
        task = self
        if "thresholds" in decisions:
            thresholds = decisions["thresholds"]
            task = replace(
                task,
                thresholds=tuple(thresholds[name] for name in self.names),
                at_least_one=decisions["at_least_one"],
            )
        if "temperatures" in decisions:
            temperatures = decisions["temperatures"]
            task = replace(task, temperatures=tuple(temperatures[name] for name in self.names))
        return task

    @property
    def scales(self) -> Floats:
        """The temperatures, shape ``(labels,)``."""
        return np.array(self.temperatures or [1.0] * self.outputs)

    @property
    def cuts(self) -> Floats:
        """The thresholds of the probabilities of this task, with its temperatures, shape ``(labels,)``."""
        thresholds = np.array(self.thresholds or [HALF] * self.outputs)
        if not self.temperatures:
            return thresholds
        with np.errstate(divide="ignore"):  # of a threshold of 0 or 1
            logits = np.log(thresholds / (1 - thresholds))
        return sigmoid(logits / self.scales)

    # What labels mean.

    @property
    def label_shape(self) -> tuple[int, ...]:
        """A row has 0 or 1 for each label."""
        return (self.outputs,)

    def parse(self, text: str | None) -> list[str]:
        """Return the names in a text that a person may have written, with any of the separators.

        They are in the order of their ids; names that are not a label follow.
        """
        any_separator = f"[{re.escape(''.join(self._separators))}]"
        names = {part.strip() for part in re.split(any_separator, text or "")} - {"", NO_LABELS}
        known = [name for name in self.names if name in names]
        return known + sorted(names.difference(known))

    @property
    def separator(self) -> str:
        """What joins the labels of a row in text."""
        return self._separators[0]

    @cached_property  # each row of a file is joined and divided by them
    def _separators(self) -> list[str]:
        """The characters of ``SEPARATORS`` that no name contains, so that they can only be between names."""
        separators = []
        for separator in SEPARATORS:
            if not any(separator in name for name in self.names):
                separators.append(separator)
        if not separators:
            raise ParamsError(
                "data.label_names: the names of the labels contain all of ; | , and tab.",
                "Rename a label: one of these must be free to join the labels of a row.",
            )
        return separators

    def valid(self, labels: Labels) -> NDArray[np.bool_]:
        """Return which rows have labels that are known, also none."""
        return np.asarray((labels >= 0).all(axis=1))

    def codes(self, labels: Labels) -> NDArray[Any]:
        """Return a hash of each set, 0 for no label; -1 for a missing label, -2 for an unknown one.

        It is the sum of hashes of the names. It has 53 bits, which a float64 holds exactly.
        """
        hashes = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in self.names]
        sums = (labels == 1).astype(np.uint64) @ np.frombuffer(b"".join(hashes), ">u8").astype(np.uint64)
        codes = (sums >> np.uint64(11)).astype(np.int64)
        return np.asarray(np.where(self.valid(labels), codes, labels.min(axis=1, initial=0)))

    def unlabelled(self, labels: Labels) -> NDArray[np.bool_]:
        """Return which rows are without a label to learn from: the empty set is one."""
        return np.asarray((labels == UNLABELLED).any(axis=1))

    def members(self, labels: Labels, label: int) -> NDArray[np.bool_]:
        """Return which rows have a label."""
        return np.asarray(labels[:, label] == 1)

    def translated(self, labels: Labels, other: "Task") -> Labels:
        """Translate labels by their names; a set with a label that this task does not have is -1."""
        if other.names == self.names:
            return labels
        result = np.zeros((len(labels), self.outputs), np.int8)
        for index, name in enumerate(other.output_names):
            if name in self.names:
                result[:, self.names.index(name)] = labels[:, index]
        for index, name in enumerate(other.output_names):
            if name not in self.names:
                result[labels[:, index] == 1] = UNLABELLED
        return result

    def value(self, label: Sequence[int]) -> list[str]:
        """Return the names of the labels of a row, which has 0 or 1 for each."""
        return [name for name, has_label in zip(self.names, label, strict=True) if has_label == 1]

    def text(self, value: Any) -> str:
        """Return the names, joined in the order of their ids."""
        return self.separator.join(value) or NO_LABELS

    # What a model predicts.

    def predictions(self, logits: Logits) -> Labels:
        """Return the labels whose probability is above their threshold."""
        return self.decide(self.scores(logits))

    def decide(self, scores: Floats) -> Labels:
        """Return the labels whose probability is above their threshold, ``(rows, labels)``."""
        sets = (scores > self.cuts).astype(np.int8)
        if self.at_least_one:
            empty = np.flatnonzero(~sets.any(axis=1))
            sets[empty, scores[empty].argmax(axis=1)] = 1
        return sets

    def confidence(self, scores: Floats, answers: Labels) -> Floats:
        """Return the probability of the least sure decision on a label of each row."""
        return np.asarray(likelihoods(scores, answers).min(axis=1))

    def scores(self, logits: Logits) -> Floats:
        """Return the probability of each label."""
        return sigmoid(finite_rows(logits) / self.scales)

    def losses(self, logits: Logits, labels: Labels) -> Floats:
        """Return the binary cross-entropy of each row, the mean over its labels, without temperatures."""
        wide = logits.astype(np.float64)
        # log(1 + exp(x)) - x * label, for logits of any size
        return np.asarray((np.logaddexp(0.0, wide) - wide * labels).mean(axis=1))

    def errors(self, predictions: Labels, labels: Labels) -> NDArray[np.bool_]:
        """Return which rows do not get exactly their labels."""
        return np.asarray((predictions != labels).any(axis=1))
