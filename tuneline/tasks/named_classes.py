"""What tasks have in common whose outputs are classes with names."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.core.errors import ParamsError
from tuneline.metrics.table import Metric
from tuneline.tasks.task import Labels, Logits, Task

if TYPE_CHECKING:
    from torch import Tensor

STEPS_OF_MANY_CLASSES = 2_000
"""Optimizer steps for many classes or labels: 20 to 55 were learnt in so many (docs/benchmarks.md)."""


class NamedClasses(Task):
    """A kind of task in which a model has one logit for each of several names.

    It is constructed from the names alone.
    """

    names: tuple[str, ...]

    class_term: ClassVar[str] = "class"
    """What messages call a name."""
    class_terms: ClassVar[str] = "classes"
    """What messages call several names."""
    has_classes: ClassVar[bool] = True
    error_figure: ClassVar[str] = "confidence"
    errors_title: ClassVar[str] = "Most confident errors"
    error_size: ClassVar[str] = "confidence"
    ordered: ClassVar[bool] = False
    correlates: ClassVar[bool] = False
    takes_class_params: ClassVar[bool] = True

    @property
    def outputs(self) -> int:
        """One for each name."""
        return len(self.names)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names."""
        return self.names

    @classmethod
    def of_outputs(cls, names: Sequence[str]) -> Self:
        """Return the task with these names."""
        construct: Any = cls
        task: Self = construct(tuple(names))
        return task

    # How labels are read and stored.

    @property
    def names_text(self) -> str:
        """The names."""
        return ", ".join(self.names)

    def bins(self, train: Labels) -> tuple[tuple[str, ...], tuple[float, ...]]:  # noqa: ARG002
        """Return one bin for each name, which is in quotes."""
        return tuple(f'"{name}"' for name in self.names), tuple(range(self.outputs - 1))

    def label_tolerance(self, labels: Labels) -> float:  # noqa: ARG002
        """Return 0: two labels are the same or not."""
        return 0.0

    # What a model predicts.

    def error_size_text(self, size: float) -> str:
        """Return a probability in percent."""
        return f"confidence {100 * size:.1f} %"

    def same_predictions(self, before: Logits, after: Logits, tolerance: float) -> NDArray[np.bool_]:  # noqa: ARG002
        """Return which rows keep their prediction."""
        return ~self.errors(self.predictions(after), self.predictions(before))

    # How a model is trained.

    @property
    def scales_targets(self) -> bool:
        """Classes have no scale."""
        return False

    @property
    def uniform_logits(self) -> Logits | None:
        """The same logit for each name."""
        return np.zeros((1, self.outputs), np.float32)

    def matches_head(self, stored: Sequence[str]) -> bool:
        """Return True for the same names in the same order."""
        return list(stored) == list(self.names)

    def check_class_params(self, class_weights: object, label_smoothing: float) -> None:  # noqa: ARG002
        """Check that weights are of names of the task."""
        if not isinstance(class_weights, dict):  # "balanced", or none
            return
        unknown = set(class_weights) - set(self.names)
        if unknown:
            raise ParamsError(
                f"train.class_weights: {min(unknown)!r} is not a {self.class_term}.",
                f"The {self.class_terms} are {', '.join(self.names)}.",
            )

    def model_outputs(self, logits: "Tensor") -> "Tensor":
        """Return the logits."""
        return logits.float()

    def sparse_linear_model(self, inverse: float, iterations: int) -> Any:
        """Return the same model as for dense features."""
        return self.linear_model(inverse, iterations, final=True)

    # How predictions are judged.

    def probability_metrics(self, logits: Logits, labels: Labels) -> dict[str, float]:
        """Return the metrics of the table that have a formula for probabilities, where they are defined."""
        return self._probability_scores(logits, labels, self.metrics)

    def exported_quality(self, logits: Logits, labels: Labels) -> Mapping[str, float]:
        """Return the metrics of probabilities that are compared."""
        compared = [metric for metric in self.metrics if metric.is_compared]
        return self._probability_scores(logits, labels, compared)

    def _probability_scores(
        self, logits: Logits, labels: Labels, metrics: Iterable[Metric]
    ) -> dict[str, float]:
        probability = self.probabilities_of(logits)
        scores = {}
        for metric in metrics:
            if metric.probability_score is None:
                continue
            score = metric.probability_score(probability, labels)
            if score is not None:
                scores[metric.name] = score
        return scores
