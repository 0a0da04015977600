"""The metrics of the pipeline as a module of the evaluate library: ``evaluate.load("stages/evaluate/scores", "classification")``.

The library copies this file and parses its imports itself: one import a line.
"""

import datasets
import evaluate
import numpy as np

from tuneline.metrics import classification_metrics, regression_metrics

FEATURES = {"classification": "int64", "regression": "float32"}


class Scores(evaluate.Metric):  # type: ignore[misc]
    """Metrics of a classification or of a regression, as tuneline/metrics.py lists them."""

    def _info(self) -> evaluate.MetricInfo:
        if self.config_name not in FEATURES:
            raise ValueError(f"scores: config_name is one of {', '.join(FEATURES)}, not {self.config_name!r}")
        value = datasets.Value(FEATURES[self.config_name])
        return evaluate.MetricInfo(
            description=__doc__,
            citation="",
            inputs_description="predictions and references; for classes also average: binary or macro, of F1.",
            features=datasets.Features({"predictions": value, "references": value}),
            format="numpy",
        )

    def _compute(self, predictions, references, average="binary"):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        if self.config_name == "regression":
            return regression_metrics(np.asarray(references), np.asarray(predictions))
        return classification_metrics(np.asarray(references), np.asarray(predictions), average)
