"""Evaluate the trained classifier on the reported split: metrics, metrics by slice, behaviour tests.

Reads: ``models/classifier/``; the reported split in ``data/tokenized/`` and ``data/raw/``; the train split, for the baselines;
``conf/behaviour/NAME.yaml``; the functions in ``project/`` that ``evaluate.metrics`` names; ``seed`` and the section ``evaluate``.
Computes: the logits of every row, once; metrics; curves; metrics by slice; behaviour tests.
Writes: ``reports/predictions.parquet``, ``reports/slices.json``, ``reports/behaviour.json``, ``plots/evaluation/``,
``metrics/evaluate.json``. A behaviour test below its ``min_pass_rate`` stops the pipeline, after all outs are written.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stages.evaluate.behaviour.cases import SplitTexts
from stages.evaluate.behaviour.results import pass_rates, run_suite, violations_of
from stages.evaluate.behaviour.suite import Suite, read_suite
from stages.evaluate.files import predictions_table, read_origin, read_split, read_texts, write_plots, write_slices_plot
from stages.evaluate.scoring import baseline_metrics, score
from stages.evaluate.slices import Slice, label_slices, length_slices, overlap_slices, score_slices, slices_report, source_slices
from stages.evaluate.tfidf import tfidf_metrics
from tuneline.batches import TokenizedSplit
from tuneline.curves import calibration, calibration_error, probabilities, ranking_metrics
from tuneline.custom_metrics import CustomMetric, load_metric
from tuneline.errors import GateError
from tuneline.files import replace_directory, replace_file
from tuneline.files.schemas import LABELS, read_table, write_table
from tuneline.metrics import primary_metric
from tuneline.params import EvaluateParams, Params
from tuneline.params.loading import load_params
from tuneline.paths import CLASSIFIER, METRICS, PLOTS, PREDICTIONS, RAW, REPORTS, TOKENIZED, split_file
from tuneline.records.evaluation import Behaviour, BehaviourResult, Slices
from tuneline.records.metrics import Metrics
from tuneline.scores import averaging, loss_of, predictions_of, task_of
from tuneline.stage import Measurements, require, run_stage
from tuneline.tfidf import predict_with_tfidf, read_sample

if TYPE_CHECKING:
    from stages.evaluate.classifier import Classifier

Logits = NDArray[np.float32]


def run(
    params: EvaluateParams, split: TokenizedSplit, train_labels: NDArray[Any], logits: Logits, custom: Sequence[CustomMetric]
) -> dict[str, float]:
    """Return the metrics of one split, and those of the majority baseline.

    Args:
        params: The section ``evaluate``.
        split: Rows that were predicted.
        train_labels: Labels of the train split, shape ``(rows,)``.
        logits: Shape ``(rows, outputs)``, in the order of the split.
        custom: The functions that ``evaluate.metrics`` names.
    """
    average = averaging(split.label_schema, params.f1)
    metrics = score(split.labels, predictions_of(logits, split.label_schema), average, params.library_metrics)
    metrics |= {"loss": loss_of(logits, split.labels), "rows": len(split)}
    if not split.label_schema.is_regression:
        probability = probabilities(logits)
        metrics |= ranking_metrics(probability, split.labels)
        metrics["calibration_error"] = calibration_error(calibration(probability, split.labels))
    metrics |= {metric.name: metric.compute(logits, split.labels) for metric in custom}
    return metrics | baseline_metrics(train_labels, split.labels, split.label_schema, average)


def slice_split(params: EvaluateParams, split: TokenizedSplit, texts: Sequence[Sequence[str]], logits: Logits) -> Slices:
    """Return the metrics by slice.

    Args:
        params: The section ``evaluate``.
        split: Rows that were predicted.
        texts: Texts of the rows, one list for each column.
        logits: Shape ``(rows, outputs)``.
    """
    slices: list[Slice] = [*length_slices(split.lengths)]
    if len(texts) == 2:
        slices += overlap_slices(list(zip(*texts, strict=True)))
    if split.label_schema.names is not None:
        slices += label_slices(split.labels, split.label_schema.names)
    slices += source_slices(*read_origin(split_file(RAW, params.split), RAW / "source.json", params.split))
    average = "macro" if split.label_schema.is_regression else averaging(split.label_schema, params.f1)
    metric = primary_metric(task_of(split.label_schema)).name
    return slices_report(score_slices(slices, logits, split.labels, split.label_schema, average), metric)


def main() -> Measurements:
    """Predict the reported split, compute metrics, slices and behaviour tests, and write the outs."""
    params = load_params()
    settings = params.evaluate
    split = read_split(require(split_file(TOKENIZED, settings.split), made_by="tokenize"))
    texts = read_texts(require(split_file(RAW, settings.split), made_by="download"), params.data.text_columns, len(split))
    train_labels = read_table(require(split_file(TOKENIZED, "train"), made_by="tokenize"), [LABELS])[LABELS].to_numpy()
    suite = None if settings.behaviour is None else read_suite(settings.behaviour)
    custom = [load_metric("evaluate.metrics", name, split.label_schema) for name in settings.functions]
    require(CLASSIFIER, made_by="train")

    from stages.evaluate.classifier import Classifier

    classifier = Classifier.load(CLASSIFIER, split.label_schema)
    started = time.perf_counter()
    logits = classifier.logits(split, settings.batch_size)
    seconds = time.perf_counter() - started
    behaviour = _test_behaviour(suite, SplitTexts(texts, split.labels, split.label_schema), classifier, settings.batch_size)
    slices = slice_split(settings, split, texts, logits)
    metrics = run(settings, split, train_labels, logits, custom) | _score_tfidf(params, split, texts, logits) | pass_rates(behaviour)
    if slices.worst is not None:
        metrics[f"worst_slice_{slices.metric}"] = slices.value(slices.worst)
    write_outs(split, logits, slices, behaviour, Metrics.of(metrics))
    if violations := violations_of(behaviour):
        message = "\n  ".join(["the model fails behaviour tests:", *violations])
        raise GateError(message, f"Failed cases are in {REPORTS / 'behaviour.json'}.")
    return {"predicting_seconds": round(seconds, 2), "rows_per_second": round(len(split) / seconds, 1)}


def _score_tfidf(params: Params, split: TokenizedSplit, texts: Sequence[Sequence[str]], logits: Logits) -> dict[str, float]:
    train = require(split_file(RAW, "train"), made_by="download")
    schema = split.label_schema
    baseline = predict_with_tfidf(read_sample(train, params.data.text_columns, schema.outputs, params.seed), texts, schema)
    average = "macro" if schema.is_regression else averaging(schema, params.evaluate.f1)
    return tfidf_metrics(split.labels, predictions_of(logits, schema), baseline, schema, average=average, seed=params.seed)


def _test_behaviour(suite: Suite | None, split: SplitTexts, classifier: "Classifier", batch_size: int) -> list[BehaviourResult]:
    return [] if suite is None else run_suite(suite, split, lambda texts: classifier.logits_of_texts(texts, batch_size))


def write_outs(split: TokenizedSplit, logits: Logits, slices: Slices, behaviour: Sequence[BehaviourResult], metrics: Metrics) -> None:
    """Write every out of the stage."""
    with replace_file(PREDICTIONS) as partial:
        write_table(predictions_table(split, logits), partial)
    slices.write(REPORTS / "slices.json")
    Behaviour(tests=behaviour).write(REPORTS / "behaviour.json")
    with replace_directory(PLOTS / "evaluation") as partial:
        write_plots(partial, logits, split.labels, split.label_schema)
        write_slices_plot(partial, slices)
    metrics.write(METRICS / "evaluate.json")


if __name__ == "__main__":
    run_stage("evaluate", main)
