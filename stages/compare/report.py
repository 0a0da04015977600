"""Write ``reports/compare/``: the comparison of each model, and the rows whose prediction flips, with their text."""

from collections.abc import Mapping, Sequence

import numpy as np

from stages.compare.comparison import Comparison, Logits, Reference
from tuneline.curves import probabilities
from tuneline.files import replace_directory
from tuneline.files.shards import SplitReader
from tuneline.params import Params
from tuneline.paths import COMPARISON, RAW
from tuneline.records import comparison as records
from tuneline.records.comparison import Flip, Flips, ModelComparison, Prediction

LIMIT = 100
"""Flipped rows written per model: those whose logits differ most."""
Violations = Mapping[str, Sequence[str]]
"""Messages about exceeded tolerances, by precision."""


def write_report(
    params: Params, comparisons: Mapping[str, Comparison], violations: Violations, reference: Reference, published: Sequence[str]
) -> None:
    """Write ``comparison.json`` and ``flips.json``.

    Args:
        params: All parameters.
        comparisons: By precision.
        violations: By precision.
        reference: Labels and the trained model's logits.
        published: Precisions that are published.
    """
    raw = SplitReader.open(RAW, params.evaluate.split, made_by="download")
    models, flips = {}, {}
    for precision, comparison in comparisons.items():
        required = params.compare.tolerance(precision).required
        models[precision] = _model_comparison(comparison, violations[precision], required, precision in published)
        flips[precision] = describe_flips(comparison, reference, raw, params.data.text_columns)
    report = records.Comparison(
        split=params.evaluate.split,
        rows=len(reference.labels),
        metric=reference.metric.name,
        trained=reference.quality(reference.logits),
        models=models,
    )
    with replace_directory(COMPARISON) as folder:
        report.write(folder / "comparison.json")
        Flips.model_validate(flips).write(folder / "flips.json")


def _model_comparison(comparison: Comparison, violations: Sequence[str], required: bool, published: bool) -> ModelComparison:
    values = {**comparison.metrics, "saturation": comparison.saturation, "violations": violations}
    return ModelComparison.model_validate({**values, "required": required, "published": published})


def describe_flips(comparison: Comparison, reference: Reference, raw: SplitReader, text_columns: Sequence[str]) -> list[Flip]:
    """Return one entry for each flipped row, the largest difference first, at most ``LIMIT``.

    Args:
        comparison: Comparison of one exported model.
        reference: Labels and the trained model's logits.
        raw: The texts of the same rows in the same order.
        text_columns: Columns of ``raw`` to show.
    """
    positions = comparison.flipped[:LIMIT]
    order = np.argsort(positions)
    texts = raw.take(positions[order], text_columns).take(np.argsort(order)).to_pylist()
    return [
        Flip(
            row=int(position),
            text=text,
            label=_label(reference, position),
            trained=_prediction(reference, reference.logits, position),
            exported=_prediction(reference, comparison.logits, position),
            difference=float(comparison.difference[position]),
        )
        for position, text in zip(positions, texts, strict=True)
    ]


def _label(reference: Reference, position: int) -> str | float:
    names = reference.label_schema.names
    return float(reference.labels[position]) if names is None else names[reference.labels[position]]


def _prediction(reference: Reference, logits: Logits, position: int) -> Prediction:
    names = reference.label_schema.names
    if names is None:
        return Prediction(prediction=float(logits[position, 0]))
    (probability,) = probabilities(logits[position : position + 1])
    best = int(probability.argmax())
    return Prediction(prediction=names[best], probability=float(probability[best]))
