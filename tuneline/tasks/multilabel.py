"""Several labels: any number of them for each row, also none.

In memory the labels of rows are numbers 0 or 1, int8 of shape ``(rows, labels)``; a row without a label to
learn from is -1 throughout. A model has one logit for each label. Its probability is the sigmoid of the
logit, and a row has the labels whose probability is above their threshold.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.core.errors import ParamsError
from tuneline.core.tables import UNLABELLED, numpy_values
from tuneline.metrics.calibrated import best_temperature
from tuneline.metrics.curves import Sigmoid, sigmoid
from tuneline.metrics.table import (
    LABEL_AGREEMENT,
    LABELS_PER_ROW,
    LOWEST_LABEL_AGREEMENT,
    METRIC_TABLE,
    MOST_PREDICTED,
    NEVER_PREDICTED,
    PREDICTED_CLASSES,
    PREDICTED_LABELS_PER_ROW,
    SET_AGREEMENT,
    Averaging,
    Metric,
    MetricKind,
)
from tuneline.tasks.named_classes import STEPS_OF_MANY_CLASSES, NamedClasses
from tuneline.tasks.task import DECISIONS, UNFILLED, Labels, Logits, RowLosses, Task
from tuneline.tasks.thresholds import HALF, choose_thresholds, divisions

if TYPE_CHECKING:
    from torch import Tensor

    from tuneline.metrics.curves import ClassProbabilities
    from tuneline.params.train import ThresholdParams

UNKNOWN = -2
"""Every label of a row with a name that the task does not have; -1 is a missing label."""
SEPARATORS = (";", "|", ",", "\t")
"""What may be between the labels of a row in text. The first that no name contains is written."""
UNIT_SEPARATOR = "\x1f"
NO_LABELS = "(none)"
"""What people read where a row has no labels."""
LOGIT_OF_NEVER = 20.0
"""Size of the logit of a label that all rows of train have, or none.

Its probability is within 1e-8 of 1 or 0.
"""
ROWS_AT_A_TIME = 100_000
SMALLEST = 1e-12
"""Smallest probability whose logarithm is taken."""


@dataclass(frozen=True)
class Multilabel(NamedClasses):
    """Labels are sets of names; a model has one logit for each name.

    Attributes:
        names: Names of the labels in the order of their ids.
        thresholds: Probability above which a row has a label, for each name; empty: 0.5.
        at_least_one: True if a row without a label above its threshold gets the most probable one.
    """

    names: tuple[str, ...]
    thresholds: tuple[float, ...] = field(default=(), compare=False)
    at_least_one: bool = field(default=False, compare=False)

    kind: ClassVar[str] = "multilabel"
    class_term: ClassVar[str] = "label"
    class_terms: ClassVar[str] = "labels"
    problem_type: ClassVar[str] = "multi_label_classification"
    metric_kind: ClassVar[MetricKind] = "multilabel"
    one_class: ClassVar[bool] = False
    errors_note: ClassVar[str] = (
        "Rows that do not get exactly their labels. The confidence is of the wrong decision on a label that"
        " the model is surest of."
    )
    prediction_column: ClassVar[str] = "labels"
    staged_type: ClassVar[pa.DataType] = pa.list_(pa.string())
    unfilled: ClassVar[str] = UNFILLED

    @classmethod
    def strata(cls, labels: pa.Array) -> pa.Array:
        """Return the labels of each row; the empty text where it has none."""
        is_empty = pc.equal(pc.list_value_length(labels), 0)
        sets = pc.if_else(is_empty, pa.scalar([""], cls.staged_type), labels)
        return pc.fill_null(sets, pa.scalar([], cls.staged_type))

    @classmethod
    def has_labels(cls, labels: pa.Array) -> bool:
        """Return True if any row has a name.

        The empty set is a label beside others, but rows that are to be labelled have an empty column, too.
        """
        return len(labels.flatten()) > 0

    @classmethod
    def observed(cls, labels: pa.Array) -> set[Any]:
        """Return the labels that occur in a column."""
        return set(pc.unique(pc.list_flatten(labels)).to_pylist())

    @classmethod
    def least_steps(cls, classes: int) -> int:  # noqa: ARG003
        """Return the steps of many classes, also for few labels: few rows may have one of them."""
        return STEPS_OF_MANY_CLASSES

    @classmethod
    def resolution(cls, rows: str, independent: float, metric: Metric) -> str:  # noqa: ARG003
        """Return on how many rows a label in ten rows is measured."""
        return (
            f"With {rows}, a label that one row in ten has is measured on {independent // 10:,.0f} of them:"
            " the intervals say how exactly."
        )

    # How outputs become predictions.

    @property
    def decisions(self) -> dict[str, Any]:
        """The thresholds by name, and whether a row gets at least one label."""
        if not self.thresholds:
            return {}
        return {
            "thresholds": dict(zip(self.names, self.thresholds, strict=True)),
            "at_least_one": self.at_least_one,
        }

    def with_decisions(self, decisions: Mapping[str, Any]) -> Self:
        """Return the task with these thresholds."""
        if not decisions:
            return self
        thresholds = decisions["thresholds"]
        return replace(
            self,
            thresholds=tuple(thresholds[name] for name in self.names),
            at_least_one=decisions["at_least_one"],
        )

    def decided(self, logits: Logits, labels: Labels, rule: "ThresholdParams") -> Self:
        """Return the task with the thresholds that suit the rows best."""
        thresholds = choose_thresholds(logits.astype(np.float64), labels == 1, rule)
        return replace(self, thresholds=tuple(thresholds.tolist()), at_least_one=rule.at_least_one)

    def cross_fitted(self, logits: Logits, labels: Labels, rule: "ThresholdParams") -> Labels:
        """Return predictions of rows, each with the thresholds of the rows in other folds."""
        predictions = np.empty_like(labels)
        for held_out, others in divisions(len(labels)):
            decided = self.decided(logits[others], labels[others], rule)
            predictions[held_out] = decided.predictions(logits[held_out])
        return predictions

    @property
    def thresholds_by_name(self) -> Mapping[str, float]:
        """The threshold of each label, 0.5 if none was chosen."""
        return dict(zip(self.names, self._cuts.tolist(), strict=True))

    @property
    def _cuts(self) -> NDArray[np.float64]:
        """The thresholds, shape ``(labels,)``."""
        return np.array(self.thresholds or [HALF] * self.outputs)

    def _decided_sets(self, probability: NDArray[np.float64]) -> Labels:
        """Return the labels of rows with these probabilities, both of shape ``(rows, labels)``."""
        sets = (probability > self._cuts).astype(np.int8)
        if self.at_least_one:
            empty = np.flatnonzero(~sets.any(axis=1))
            sets[empty, probability[empty].argmax(axis=1)] = 1
        return sets

    # How labels are read and stored.

    @property
    def label_shape(self) -> tuple[int, ...]:
        """A row has 0 or 1 for each label."""
        return (self.outputs,)

    @property
    def label_type(self) -> pa.DataType:
        """A list of ids, ascending."""
        return pa.list_(pa.int64())

    @property
    def label_dtype(self) -> np.dtype[Any]:
        """0 or 1."""
        return np.dtype(np.int8)

    @property
    def label_feature(self) -> dict[str, Any]:
        """A list of class labels with their names, and what decides on them."""
        label: dict[str, Any] = {"names": list(self.names), "_type": "ClassLabel", "task": self.kind}
        if self.decisions:
            label[DECISIONS] = self.decisions
        return {"feature": label, "_type": "List"}

    def array_of(self, column: pa.Array | pa.ChunkedArray) -> Labels:
        """Return lists of ids as 0 or 1 for each label; -1 throughout for ``[-1]``."""
        return self._array(column, numpy_values(pc.list_flatten(column)))

    def _array(self, lists: pa.Array | pa.ChunkedArray, ids: NDArray[np.int64]) -> Labels:
        """Return rows of lists, whose elements have these ids, as 0 or 1 for each label."""
        rows = numpy_values(pc.list_parent_indices(lists).cast(pa.int64()))
        labels = np.zeros((len(lists), self.outputs), np.int8)
        is_label = (ids >= 0) & (ids < self.outputs)
        labels[rows[is_label], ids[is_label]] = 1
        labels[rows[ids == UNLABELLED]] = UNLABELLED
        labels[rows[(ids < UNLABELLED) | (ids >= self.outputs)]] = UNKNOWN
        return labels

    def column_of(self, labels: Labels) -> pa.Array:
        """Return 0 or 1 for each label as lists of ids."""
        rows, ids = np.nonzero(labels == 1)
        lists = np.split(ids, np.searchsorted(rows, np.arange(1, len(labels))))
        if not len(labels):
            lists = []
        missing = np.flatnonzero((labels < 0).any(axis=1))
        for row in missing.tolist():
            lists[row] = labels[row, :1].astype(np.int64)
        return pa.array(lists, self.label_type)

    @classmethod
    def label_texts(cls, labels: pa.Array) -> pa.Array:
        """Return the names of each row, sorted, with a character between them that no name contains."""
        texts = []
        for names in labels.to_pylist():
            texts.append(None if names is None else UNIT_SEPARATOR.join(sorted(names)))
        return pa.array(texts, pa.string())

    def stored(self, labels: pa.Array, written: Sequence[str]) -> pa.Array:
        """Return the ids of the labels, ascending; ``[-1]`` for a row with an unknown label."""
        names = pa.array(written, pa.string())
        ids = pc.fill_null(pc.index_in(pc.list_flatten(labels), value_set=names), UNLABELLED)
        array = self._array(labels, numpy_values(ids.cast(pa.int64())))
        return pc.if_else(pc.is_valid(labels), self.column_of(array), None)

    def unlabelled_column(self, rows: int) -> pa.Array:
        """Return a column of rows without a label."""
        return pa.array([[UNLABELLED]] * rows, self.label_type)

    def parsed(self, texts: pa.ChunkedArray) -> Labels:
        """Return the labels that texts list, -2 for a text with an unknown one."""
        labels = np.zeros((len(texts), self.outputs), np.int8)
        ids = {name: index for index, name in enumerate(self.names)}
        for row, text in enumerate(texts.to_pylist()):
            for name in self._listed(text):
                if name not in ids:
                    labels[row] = UNKNOWN
                    break
                labels[row, ids[name]] = 1
        return labels

    def _listed(self, text: str | None) -> list[str]:
        """Return the names in a text that a person may have written, with any of the separators."""
        any_separator = f"[{re.escape(''.join(self._separators))}]"
        parts = [part.strip() for part in re.split(any_separator, text or "")]
        return [part for part in parts if part and part != NO_LABELS]

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

    @property
    def label_limits(self) -> dict[str, Any]:
        """The code of no label, the smallest one: a missing or an unknown label has a negative one."""
        return {"smallest_code": 0}

    def bin_values(self, labels: Labels) -> Labels:
        """Return the id of each label of each row: a row counts once for every label that it has."""
        return np.asarray(np.nonzero(labels == 1)[1])

    def codes(self, labels: Labels) -> NDArray[Any]:
        """Return a hash of each set, 0 for no label; -1 for a missing label, -2 for an unknown one.

        It is the sum of hashes of the names. It has 53 bits, which a float64 holds exactly.
        """
        hashes = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in self.names]
        sums = (labels == 1).astype(np.uint64) @ np.frombuffer(b"".join(hashes), ">u8").astype(np.uint64)
        codes = (sums >> np.uint64(11)).astype(np.int64)
        return np.asarray(np.where(self.valid(labels), codes, labels.min(axis=1, initial=0)))

    def histograms(self, counts: NDArray[np.int64], rows: int) -> list[NDArray[np.int64]]:
        """Return the rows with and without each label: the labels of a row depend on each other."""
        return [np.array([count, rows - count]) for count in np.minimum(counts, rows).tolist()]

    def largest_share(self, labels: Labels) -> float:
        """Return the share of the rows with the most frequent label, or of those without any."""
        sets = labels[self.valid(labels)] == 1
        if not sets.size:
            return 0.0
        return float(max(sets.mean(axis=0).max(), (~sets.any(axis=1)).mean()))

    def label_figures(self, labels: Labels) -> dict[str, float]:
        """Return the cardinality and density of the sets, and the share of the rows without a label.

        Tsoumakas & Katakis, "Multi-Label Classification: An Overview", 2007, section 4.
        """
        sets = labels[self.valid(labels)] == 1
        if not sets.size:
            return {}
        cardinality = float(sets.sum(axis=1).mean())
        return {
            LABELS_PER_ROW: cardinality,
            "label_density": cardinality / self.outputs,
            "rows_without_label": float((~sets.any(axis=1)).mean()),
        }

    def unlabelled(self, labels: Labels) -> NDArray[np.bool_]:
        """Return which rows are without a label to learn from: the empty set is one."""
        return np.asarray((labels == UNLABELLED).any(axis=1))

    def members(self, labels: Labels, label: int) -> NDArray[np.bool_]:
        """Return which rows have a label."""
        return np.asarray(labels[:, label] == 1)

    def translated(self, labels: Labels, other: Task) -> Labels:
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

    def encoded(self, predicted: pa.ChunkedArray) -> Labels:
        """Return lists of names, or texts that join them, as labels; -1 for a set with an unknown one."""
        if pa.types.is_string(predicted.type) or pa.types.is_large_string(predicted.type):
            labels = self.parsed(predicted)
            labels[(labels == UNKNOWN).any(axis=1)] = UNLABELLED
            return labels
        return self.array_of(self.stored(predicted.combine_chunks(), self.names))

    def decoded(self, predictions: Labels) -> pa.Array:
        """Return lists of names."""
        return pa.array([self._names_of(row) for row in predictions.tolist()], pa.list_(pa.string()))

    def _names_of(self, row: Sequence[int]) -> list[str]:
        return [name for name, has_label in zip(self.names, row, strict=True) if has_label == 1]

    def exact_text(self, label: Any) -> str:
        """Return the names, joined in the order of their ids, given a text, ids, or 0 or 1 for each label."""
        if isinstance(label, str):
            names = set(self._listed(label))
            known = [name for name in self.names if name in names]
            unknown = sorted(names.difference(self.names))
            return self.separator.join([*known, *unknown]) or NO_LABELS
        return self.separator.join(self._names_of(label)) or NO_LABELS

    def staged_text(self, label: Any) -> str:
        """Return the names, joined in the order of their ids."""
        return self.exact_text(self.separator.join(label))

    def unknown_names(self, text: str) -> list[str]:
        """Return the names in a text that are no label."""
        return [name for name in self._listed(text) if name not in self.names]

    def label_text(self, label: Any) -> str:
        """Return the names of a row's labels."""
        return f"{self.separator} ".join(self._names_of(label)).strip() or NO_LABELS

    def logged_label(self, label: Any) -> str:
        """Return the names of a row's labels."""
        return f"[{', '.join(self._names_of(label))}]"

    def label_value(self, label: Any) -> str | float:
        """Return the names of a row's labels, joined."""
        return self.separator.join(self._names_of(label))

    def example_labels(self, rows: int) -> Labels:
        """Return labels in the pattern of binary numbers, so that sets of several sizes occur."""
        numbers = np.arange(rows)[:, None]
        return np.asarray((numbers >> np.arange(self.outputs) % 8) & 1).astype(np.int8)

    # What a model predicts.

    def predictions(self, logits: Logits) -> Labels:
        """Return the labels whose probability is above their threshold."""
        return self._decided_sets(sigmoid(logits))

    def scores(self, logits: Logits) -> NDArray[np.float64]:
        """Return the probability of each label."""
        return sigmoid(logits)

    def probabilities_of(self, logits: Logits) -> "ClassProbabilities":
        """Return the probability of each label."""
        return Sigmoid(logits)

    @property
    def prediction_columns(self) -> tuple[str, ...]:
        """The labels, and the probability of each label."""
        return ("labels", *(f"probability_{name}" for name in self.names))

    @property
    def prediction_types(self) -> tuple[pa.DataType, ...]:
        """A list of names, and numbers."""
        return (pa.list_(pa.string()), *[pa.float32()] * self.outputs)

    def prediction_rows(self, scores: NDArray[np.float64], digits: int) -> Iterator[list[Any]]:
        """Yield lists of names, and probabilities."""
        sets = self._decided_sets(scores).tolist()
        for labels, values in zip(sets, scores.round(digits).tolist(), strict=True):
            yield [self._names_of(labels), *values]

    def cell_text(self, value: Any) -> Any:
        """Return the labels of a row joined, as a CSV file has them."""
        if isinstance(value, list):
            return self.separator.join(value)
        return value

    def json_prediction(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return the labels with the probabilities by name."""
        labels, *shares = values
        return {"labels": labels, "probabilities": dict(zip(self.names, shares, strict=True))}

    def named_scores(self, scores: Sequence[float]) -> tuple[str | float, dict[str, float]]:
        """Return the labels, joined, and all probabilities."""
        (labels,) = self._decided_sets(np.array([scores])).tolist()
        return self.label_text(labels), dict(zip(self.names, scores, strict=True))

    def margin(self, probabilities: Mapping[str, float]) -> float:
        """Return the smallest distance of a probability from its threshold."""
        return min(self._distances(probabilities).values(), default=0.0)

    def by_doubt(self, probabilities: Mapping[str, float]) -> list[str]:
        """Return the labels by the distance of their probability from their threshold."""
        distances = self._distances(probabilities)
        return sorted(distances, key=lambda name: distances[name])

    def _distances(self, probabilities: Mapping[str, float]) -> dict[str, float]:
        distances = {}
        for name, cut in zip(self.names, self._cuts.tolist(), strict=True):
            distances[name] = abs(probabilities[name] - cut)
        return distances

    def constant_prediction(self, batches: Iterable[Labels]) -> Any:
        """Return the most frequent set, of equally frequent ones the first in the order of the ids."""
        counts: dict[bytes, int] = {}
        for batch in batches:
            sets, rows = np.unique(batch, axis=0, return_counts=True)
            for labels, count in zip(sets.astype(np.int8), rows.tolist(), strict=True):
                counts[labels.tobytes()] = counts.get(labels.tobytes(), 0) + count
        most_frequent = min(counts, key=lambda labels: (-counts[labels], labels))
        return np.frombuffer(most_frequent, np.int8)

    def errors(self, predictions: Labels, labels: Labels) -> NDArray[np.bool_]:
        """Return which rows do not get exactly their labels."""
        return np.asarray((predictions != labels).any(axis=1))

    def error_sizes(self, logits: Logits, labels: Labels) -> NDArray[np.float64]:
        """Return the probability of the most confident wrong decision of each row.

        Where all decisions are right, it is the probability of the least confident one.
        """
        probability = sigmoid(logits)
        sets = self._decided_sets(probability)
        confidence = _likelihoods(probability, sets)
        wrong = sets != labels
        most_confident_error = np.where(wrong, confidence, 0.0).max(axis=1)
        return np.asarray(np.where(wrong.any(axis=1), most_confident_error, confidence.min(axis=1)))

    def spread(self, predictions: Labels, labels: Labels) -> dict[str, float]:
        """Return numbers of predicted and never predicted labels, and of labels per row.

        Of the most frequent set, it is the share of the rows that get it.
        """
        predicted = predictions.any(axis=0)
        labelled = (labels == 1).any(axis=0)
        _, rows = np.unique(predictions, axis=0, return_counts=True)
        return {
            PREDICTED_CLASSES: int(predicted.sum()),
            NEVER_PREDICTED: int((labelled & ~predicted).sum()),
            MOST_PREDICTED: float(rows.max() / len(labels)),
            LABELS_PER_ROW: float((labels == 1).sum(axis=1).mean()),
            PREDICTED_LABELS_PER_ROW: float(predictions.sum(axis=1).mean()),
        }

    def confidence(self, logits: Logits) -> float | None:
        """Return the probability of the least certain decision."""
        return float(self.confidences(logits)[0])

    def confidences(self, logits: Logits) -> NDArray[np.float64]:
        """Return the probability of the least certain decision of each row."""
        probability = sigmoid(logits)
        return np.asarray(_likelihoods(probability, self._decided_sets(probability)).min(axis=1))

    # How a model is trained.

    def new_bias(
        self, labels: Labels, class_weights: NDArray[np.float32] | None
    ) -> NDArray[np.float32] | None:
        """Return the log odds of each label in train.

        With a bias of 0, the first epochs teach the model nothing but that most labels are rare (Lin et al.
        2017, "Focal Loss for Dense Object Detection", section 4.1). On 2,798 package descriptions with 25
        labels, 6 epochs of MiniLM gave a macro F1 of 0.455 on validation with it, and 0.263 without. A model
        from scratch has nothing to tell labels by yet, and learned less with it: 0.70 to 0.77 instead of 0.84
        to 0.86 on 450 generated texts.
        """
        with_label = (labels == 1).sum(axis=0) + 0.5
        without = (labels == 0).sum(axis=0) + 0.5
        odds = with_label / without
        if class_weights is not None:
            odds = odds * class_weights
        return np.asarray(np.log(odds), np.float32)

    def balanced_weights(self, labels: Labels) -> NDArray[np.float32]:
        """Return the rows without each label by the rows with it, shape ``(labels,)``.

        So both kinds of rows have the same total weight. A label without rows weighs 1.
        """
        rows = (labels == 1).sum(axis=0)
        weights = np.where(rows > 0, (len(labels) - rows) / np.maximum(rows, 1), 1.0)
        return np.maximum(weights, SMALLEST).astype(np.float32)

    def total_weight(self, labels: Labels, class_weights: NDArray[np.float32]) -> float:  # noqa: ARG002
        """Return the number of rows: a weight is of the label of a row, not of the row."""
        return float(len(labels))

    def weighted(self, losses: "Tensor", labels: "Tensor", weight: "Tensor") -> "Tensor":  # noqa: ARG002
        """Refuse weights: a function of the user returns the loss of all labels of a row together."""
        raise ParamsError(
            "train.class_weights: with several labels per row, a loss of your own cannot be weighted.",
            "Set it to null, and weight the labels in the function.",
        )

    def losses(
        self, outputs: "Tensor", labels: "Tensor", weight: "Tensor | None", label_smoothing: float
    ) -> "Tensor":
        """Return the binary cross-entropy, mean over the labels.

        ``weight`` multiplies the loss of the labels that a row has. Smoothing moves each target by half its
        share towards 0.5.
        """
        from torch.nn import functional

        targets = labels.float() * (1 - label_smoothing) + label_smoothing / 2
        entropies = functional.binary_cross_entropy_with_logits(
            outputs, targets, pos_weight=weight, reduction="none"
        )
        return entropies.mean(dim=1)

    # Linear models, of texts or of frozen vectors.

    def linear_model(self, inverse: float, iterations: int, *, final: bool) -> Any:
        """Return a logistic regression of each label; the final one chooses its thresholds."""
        from tuneline.tasks.one_vs_rest import OneVsRest

        return OneVsRest(inverse=inverse, iterations=iterations, has_thresholds=final)

    def linear_score(self, model: Any, vectors: NDArray[np.float32], labels: Labels) -> float:
        """Return the negative mean loss."""
        if not len(labels):
            return 0.0
        return -float(_entropies(model.predict_proba(vectors), labels).mean())

    def linear_head(
        self,
        coefficients: NDArray[np.float64],
        intercept: NDArray[np.float64],
        classes: Any,  # noqa: ARG002
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the weights: there is a row for each label."""
        return coefficients, intercept

    def constant_bias(self, constant: Any) -> NDArray[np.float64]:
        """Return a bias with which the labels of a set are certain, and all others impossible."""
        return np.where(np.asarray(constant) == 1, LOGIT_OF_NEVER, -LOGIT_OF_NEVER)

    # How predictions are judged.

    @property
    def slice_metric(self) -> Metric:
        """Micro F1."""
        return METRIC_TABLE["micro_f1"]

    def averaging(self, required: Averaging | None) -> Averaging:
        """Return macro: the metrics of the table say themselves how they average."""
        if required == "binary":
            raise ParamsError(
                "evaluate.f1: binary is for two classes; the data has several labels per row.",
                "Set it to null.",
            )
        return "macro"

    def mean_loss(self, logits: Logits, labels: Labels) -> float:
        """Return the mean binary cross-entropy."""
        total = 0.0
        for start in range(0, len(labels), ROWS_AT_A_TIME):
            rows = slice(start, start + ROWS_AT_A_TIME)
            outputs = logits[rows].astype(np.float64)
            # log(1 + exp(x)) - x * label, for logits of any size
            losses = np.logaddexp(0.0, outputs) - outputs * labels[rows]
            total += float(losses.sum())
        return total / labels.size

    def calibrated_losses(self, logits: Logits, labels: Labels) -> RowLosses:
        """Return the losses of logits that are divided by the temperature that suits these rows best.

        The source is Guo et al. 2017, "On Calibration of Modern Neural Networks".
        """
        temperature = best_temperature(logits, labels, _logit_entropies)
        return _logit_entropies(logits / temperature, labels)

    def uninformed_losses(self, labels: Labels) -> RowLosses:
        """Return the losses of the frequencies of the labels."""
        frequencies = np.broadcast_to(labels.mean(axis=0), labels.shape)
        return _entropies(frequencies, labels)

    @property
    def curves_note(self) -> str:
        """The curves are of labels, and calibration is of all decisions."""
        return (
            "Curves are means over the labels. Calibration compares the probability of each label with how"
            " often rows have it."
        )

    def agreement(
        self,
        trained: Logits,
        exported: Logits,
        labels: Labels,  # noqa: ARG002
        close_rmse: float,  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """Return the labels that both models give a row, twice, by all labels that either gives it.

        It is the coefficient of Dice (1945), or the F1 of the exported model's set where the trained model's
        is taken as true. If every row gets one label, its mean is the share of equal predictions, so that
        ``compare.*.min_agreement`` means the same as for one label per row. The share of equal sets falls
        with the number of labels, and the share of equal decisions says little where most labels are rare.
        """
        expected = self.predictions(trained)
        predicted = self.predictions(exported)
        shared = 2.0 * (expected & predicted).sum(axis=1)
        given = expected.sum(axis=1) + predicted.sum(axis=1)
        # two empty sets are equal
        return np.asarray(np.where(given > 0, shared / np.maximum(given, 1), 1.0))

    def agreement_metrics(self, trained: Logits, exported: Logits) -> dict[str, float]:
        """Return the shares of equal sets and of equal decisions, and the lowest one of a label."""
        same = self.predictions(trained) == self.predictions(exported)
        by_label = same.mean(axis=0)
        return {
            SET_AGREEMENT: float(same.all(axis=1).mean()),
            LABEL_AGREEMENT: float(by_label.mean()),
            LOWEST_LABEL_AGREEMENT: float(by_label.min()),
        }


def _likelihoods(probability: NDArray[np.float64], labels: Labels) -> NDArray[np.float64]:
    """Return the probability that each decision is as in ``labels``; all of shape ``(rows, labels)``."""
    return np.where(labels == 1, probability, 1 - probability)


def _entropies(probability: NDArray[np.float64], labels: Labels) -> RowLosses:
    """Return the binary cross-entropy of each row, mean over its labels."""
    likelihood = _likelihoods(probability, labels)
    return np.asarray(-np.log(np.maximum(likelihood, SMALLEST)).mean(axis=1))


def _logit_entropies(logits: NDArray[Any], labels: Labels) -> RowLosses:
    """Return the binary cross-entropy of each row, from logits."""
    return _entropies(sigmoid(logits), labels)
