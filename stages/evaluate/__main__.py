"""Evaluate the trained classifier on the reported split: metrics, metrics by slice, behaviour tests.

Reads: ``models/classifier/``; the reported split in ``data/tokenized/`` and ``data/raw/``; the train split, for the baselines;
``reports/checks/rows/``, for the metric without leaked rows; ``conf/behaviour/NAME.yaml``; the functions in ``project/`` that
``evaluate.metrics`` names; ``seed`` and the section ``evaluate``.
Computes: the logits of every row, once; metrics, with and without leaked rows; curves; metrics by slice; behaviour tests.
Writes: ``reports/predictions.parquet``, ``reports/slices.json``, ``reports/behaviour.json``, ``plots/evaluation/``,
``metrics/evaluate.json``. A behaviour test below its ``min_pass_rate`` stops the pipeline, after all outs are written.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stages.evaluate.behaviour.cases import LabelledTexts
from stages.evaluate.behaviour.results import pass_rates, run_suite, violations_of
from stages.evaluate.behaviour.suite import Suite, read_suite
from stages.evaluate.files import (
    mapped_logits,
    read_label_batches,
    read_origin,
    read_split,
    write_plots,
    write_predictions,
    write_slices_plot,
)
from stages.evaluate.leaks import leak_metrics, leaked_rows
from stages.evaluate.scoring import baseline_metrics, score
from stages.evaluate.slices import Slice, label_slices, length_slices, overlap_slices, score_slices, slices_report, source_slices
from stages.evaluate.texts import TextSplit
from stages.evaluate.tfidf import tfidf_metrics
from tuneline.batches import TokenizedSplit
from tuneline.curves import Softmax, calibration, calibration_error, ranking_metrics
from tuneline.custom_metrics import CustomMetric, load_metric
from tuneline.errors import GateError
from tuneline.files import replace_directory
from tuneline.files.shards import SplitReader
from tuneline.metrics import primary_metric
from tuneline.params import EvaluateParams, Params
from tuneline.params.loading import load_params
from tuneline.paths import CLASSIFIER, FAILING_ROWS, METRICS, PLOTS, PREDICTIONS, RAW, REPORTS, TOKENIZED
from tuneline.records.evaluation import Behaviour, BehaviourResult, Slices
from tuneline.records.metrics import Metrics
from tuneline.scores import averaging, loss_of, predictions_of, task_of
from tuneline.stage import Measurements, require, run_stage
from tuneline.terminal import phase, progress
from tuneline.tfidf import TfidfModel, read_sample

if TYPE_CHECKING:
    from stages.evaluate.classifier import Classifier

Logits = NDArray[np.float32]


def run(
    params: EvaluateParams,
    split: TokenizedSplit,
    train_labels: Iterable[NDArray[Any]],
    logits: Logits,
    custom: Sequence[CustomMetric],
) -> dict[str, float]:
    """Return the metrics of one split, and those of the majority baseline.

    Args:
        params: The section ``evaluate``.
        split: Rows that were predicted.
        train_labels: Labels of the train split in batches, each of shape ``(rows,)``.
        logits: Shape ``(rows, outputs)``, in the order of the split.
        custom: The functions that ``evaluate.metrics`` names.
    """
    average = averaging(split.label_schema, params.f1)
    metrics = score(split.labels, predictions_of(logits, split.label_schema), average, params.library_metrics)
    metrics |= {"loss": loss_of(logits, split.labels), "rows": len(split)}
    if not split.label_schema.is_regression:
        probability = Softmax.of(logits)
        metrics |= ranking_metrics(probability, split.labels)
        metrics["calibration_error"] = calibration_error(calibration(probability, split.labels))
    metrics |= {metric.name: metric.compute(logits, split.labels) for metric in custom}
    return metrics | baseline_metrics(train_labels, split.labels, split.label_schema, average)


def slice_split(params: EvaluateParams, split: TokenizedSplit, texts: TextSplit, logits: Logits) -> Slices:
    """Return the metrics by slice.

    Args:
        params: The section ``evaluate``.
        split: Rows that were predicted.
        texts: Texts of the rows.
        logits: Shape ``(rows, outputs)``.
    """
    average = "macro" if split.label_schema.is_regression else averaging(split.label_schema, params.f1)
    metric = primary_metric(task_of(split.label_schema)).name
    return slices_report(score_slices(_slices(split, texts), logits, split.labels, split.label_schema, average), metric)


def _slices(split: TokenizedSplit, texts: TextSplit) -> Iterator[Slice]:
    yield from length_slices(split.lengths)
    if len(texts.columns) == 2:
        yield from overlap_slices(texts.batches())
    if split.label_schema.names is not None:
        yield from label_slices(split.labels, split.label_schema.names)
    yield from source_slices(*read_origin(texts.raw, RAW / "source.json"))


def main() -> Measurements:
    """Predict the reported split, compute metrics, slices and behaviour tests, and write the outs."""
    params = load_params()
    settings = params.evaluate
    split = read_split(SplitReader.open(TOKENIZED, settings.split, made_by="tokenize"))
    texts = TextSplit.of(SplitReader.open(RAW, settings.split, made_by="download"), params.data.text_columns, len(split))
    train = SplitReader.open(TOKENIZED, "train", made_by="tokenize")
    suite = None if settings.behaviour is None else read_suite(settings.behaviour)
    custom = [load_metric("evaluate.metrics", name, split.label_schema) for name in settings.functions]
    require(CLASSIFIER, made_by="train")

    from stages.evaluate.classifier import Classifier

    classifier = Classifier.load(CLASSIFIER, split.label_schema)
    with mapped_logits(REPORTS, len(split), split.label_schema.outputs) as logits:
        started = time.perf_counter()
        classifier.logits(split, settings.batch_size, logits)
        seconds = time.perf_counter() - started
        behaviour = _test_behaviour(suite, LabelledTexts(texts, split.labels, split.label_schema), classifier, settings.batch_size)
        with progress("evaluate"):
            phase("slices")
            slices = slice_split(settings, split, texts, logits)
            phase("metrics")
            metrics = run(settings, split, read_label_batches(train), logits, custom) | _score_tfidf(params, split, texts, logits)
            metrics |= _score_without_leaks(params, split, logits) | pass_rates(behaviour) | _score_of_worst(slices)
            phase("writing")
            write_outs(split, logits, slices, behaviour, Metrics.of(metrics))
    if violations := violations_of(behaviour):
        message = "\n  ".join(["the model fails behaviour tests:", *violations])
        raise GateError(message, f"Failed cases are in {REPORTS / 'behaviour.json'}.")
    return {"predicting_seconds": round(seconds, 2), "rows_per_second": round(len(split) / seconds, 1)}


def _score_tfidf(params: Params, split: TokenizedSplit, texts: TextSplit, logits: Logits) -> dict[str, float]:
    phase("the TF-IDF baseline")
    train, schema = SplitReader.open(RAW, "train", made_by="download"), split.label_schema
    model = TfidfModel.fit(read_sample(train, params.data.text_columns, schema.outputs, params.seed), schema)
    baseline = np.concatenate([model.predict(batch) for batch in texts.batches()])
    average = "macro" if schema.is_regression else averaging(schema, params.evaluate.f1)
    return tfidf_metrics(split.labels, predictions_of(logits, schema), baseline, schema, average=average, seed=params.seed)


def _score_without_leaks(params: Params, split: TokenizedSplit, logits: Logits) -> dict[str, float]:
    if not FAILING_ROWS.exists():  # the data checks have not run here
        return {}
    schema = split.label_schema
    average = "macro" if schema.is_regression else averaging(schema, params.evaluate.f1)
    leaked = leaked_rows(FAILING_ROWS, params.evaluate.split, len(split))
    return leak_metrics(split.labels, predictions_of(logits, schema), leaked, schema, average=average, seed=params.seed)


def _score_of_worst(slices: Slices) -> dict[str, float]:
    return {} if slices.worst is None else {f"worst_slice_{slices.metric}": slices.value(slices.worst)}


def _test_behaviour(suite: Suite | None, split: LabelledTexts, classifier: "Classifier", batch_size: int) -> list[BehaviourResult]:
    return [] if suite is None else run_suite(suite, split, lambda texts: classifier.logits_of_texts(texts, batch_size))


def write_outs(split: TokenizedSplit, logits: Logits, slices: Slices, behaviour: Sequence[BehaviourResult], metrics: Metrics) -> None:
    """Write every out of the stage."""
    write_predictions(PREDICTIONS, split, logits)
    slices.write(REPORTS / "slices.json")
    Behaviour(tests=behaviour).write(REPORTS / "behaviour.json")
    with replace_directory(PLOTS / "evaluation") as partial:
        write_plots(partial, logits, split.labels, split.label_schema)
        write_slices_plot(partial, slices)
    metrics.write(METRICS / "evaluate.json")


if __name__ == "__main__":
    run_stage("evaluate", main)
