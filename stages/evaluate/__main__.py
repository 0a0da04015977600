"""Scores the trained classifier on the reported split: its metrics, those of parts of the split, and how it behaves.

Reads: ``models/classifier/``; the reported split in ``data/tokenized/`` and ``data/raw/``; the labels of train, for the baseline;
``conf/behaviour/NAME.yaml``; the section ``evaluate``.
Computes: the logits of every row, once; metrics through the evaluate library; curves; metrics by slice; behaviour tests.
Writes: ``reports/predictions.parquet``, ``reports/slices.json``, ``reports/behaviour.json``, ``plots/evaluation/``,
``metrics/evaluate.json``. A behaviour test below its ``min_pass_rate`` stops the line, after all that is written.
"""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.evaluate.baseline import baseline_metrics
from stages.evaluate.behaviour.cases import Rows
from stages.evaluate.behaviour.judging import faults, pass_rates, run_suite
from stages.evaluate.behaviour.suite import Suite, read_suite
from stages.evaluate.library import score
from stages.evaluate.plots import write_plots, write_slices_plot
from stages.evaluate.predictions import predictions_table
from stages.evaluate.reading import read_places, read_split, read_texts
from stages.evaluate.slices import Slice, label_slices, length_slices, overlap_slices, score_slices, slices_report, source_slices
from tuneline.batches import TokenizedSplit
from tuneline.curves import calibration, calibration_error, probabilities, ranking_metrics
from tuneline.errors import GateError
from tuneline.files import replace_directory, replace_file, write_json, write_metrics
from tuneline.files.schemas import LABELS, write_table
from tuneline.metrics import averaging, loss_of, predictions_of
from tuneline.params import EvaluateParams
from tuneline.params.loading import load_params
from tuneline.paths import CLASSIFIER, METRICS, PLOTS, PREDICTIONS, RAW, REPORTS, TOKENIZED, split_file
from tuneline.stage import Measurements, require, run_stage

if TYPE_CHECKING:
    from stages.evaluate.predicting import Classifier

Logits = NDArray[np.float32]


def run(params: EvaluateParams, split: TokenizedSplit, train_labels: NDArray[Any], logits: Logits) -> dict[str, float]:
    """Metrics of one split, those of the baseline beside them.

    Args:
        params: The section ``evaluate``.
        split: The rows that were predicted.
        train_labels: LabelSchema of the train split.
        logits: Shape ``[rows, outputs]``, in the order of the split.
    """
    average = averaging(split.label_schema, params.f1)
    metrics = score(split.labels, predictions_of(logits, split.label_schema), average, params.metrics or [])
    metrics |= {"loss": loss_of(logits, split.labels), "rows": len(split)}
    if not split.label_schema.is_regression:
        probability = probabilities(logits)
        metrics |= ranking_metrics(probability, split.labels)
        metrics["calibration_error"] = calibration_error(calibration(probability, split.labels))
    return metrics | baseline_metrics(train_labels, split.labels, split.label_schema, average)


def slice_split(params: EvaluateParams, split: TokenizedSplit, texts: Sequence[Sequence[str]], logits: Logits) -> dict[str, Any]:
    """Metrics by slice, for ``reports/slices.json``.

    Args:
        params: The section ``evaluate``.
        split: The rows.
        texts: Their texts, one list for each column.
        logits: Shape ``[rows, outputs]``.
    """
    slices: list[Slice] = [*length_slices(split.lengths)]
    if len(texts) == 2:
        slices += overlap_slices(list(zip(*texts, strict=True)))
    if split.label_schema.names is not None:
        slices += label_slices(split.labels, split.label_schema.names)
    slices += source_slices(*read_places(split_file(RAW, params.split), RAW / "source.json", params.split))
    average = "macro" if split.label_schema.is_regression else averaging(split.label_schema, params.f1)
    metric = "pearson" if split.label_schema.is_regression else "accuracy"
    return slices_report(score_slices(slices, logits, split.labels, split.label_schema, average), metric)


def main() -> Measurements:
    """Loads the model, predicts, scores, and writes the outs."""
    params = load_params()
    settings = params.evaluate
    split = read_split(require(split_file(TOKENIZED, settings.split), made_by="tokenize"))
    texts = read_texts(require(split_file(RAW, settings.split), made_by="download"), params.data.text_columns, len(split))
    train_labels = pq.read_table(require(split_file(TOKENIZED, "train"), made_by="tokenize"), columns=[LABELS])[LABELS].to_numpy()
    suite = None if settings.behaviour is None else read_suite(settings.behaviour)
    require(CLASSIFIER, made_by="train")

    from stages.evaluate.predicting import Classifier

    classifier = Classifier.load(CLASSIFIER, split.label_schema)
    started = time.perf_counter()
    logits = classifier.logits(split, settings.batch_size)
    seconds = time.perf_counter() - started
    behaviour = _behave(suite, Rows(texts, split.labels, split.label_schema), classifier, settings.batch_size)
    slices = slice_split(settings, split, texts, logits)
    metrics = run(settings, split, train_labels, logits) | pass_rates(behaviour)
    if slices["worst"] is not None:
        metrics[f"worst_slice_{slices['metric']}"] = slices["worst"][slices["metric"]]
    write_outs(split, logits, slices, behaviour, metrics)
    if said := faults(behaviour):
        raise GateError("\n  ".join(["the model does not behave as it must:", *said]), f"Cases stand in {REPORTS / 'behaviour.json'}.")
    return {"predicting_seconds": round(seconds, 2), "rows_per_second": round(len(split) / seconds, 1)}


def _behave(suite: Suite | None, rows: Rows, classifier: "Classifier", batch_size: int) -> list[dict[str, Any]]:
    return [] if suite is None else run_suite(suite, rows, lambda texts: classifier.ask(texts, batch_size))


def write_outs(
    split: TokenizedSplit, logits: Logits, slices: Mapping[str, Any], behaviour: Sequence[Mapping[str, Any]], metrics: Mapping[str, float]
) -> None:
    """Writes everything that the stage makes."""
    with replace_file(PREDICTIONS) as partial:
        write_table(predictions_table(split, logits), partial)
    write_json(REPORTS / "slices.json", slices)
    write_json(REPORTS / "behaviour.json", {"tests": list(behaviour)})
    with replace_directory(PLOTS / "evaluation") as partial:
        write_plots(partial, logits, split.labels, split.label_schema)
        write_slices_plot(partial, slices)
    write_metrics(METRICS / "evaluate.json", metrics)


if __name__ == "__main__":
    run_stage("evaluate", main)
