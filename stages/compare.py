"""Compare the exported models with the trained model on every row of the split, and publish the good ones.

Reads: ``models/candidates/``; the reported split in ``data/tokenized/``, and validation, which fits the
temperature of each model; the trained model's logits in ``reports/predictions.parquet``;
``reports/checks/clusters/``, which rows are independent; ``reports/checks/rows/``, which reported rows are
not new. torch is not needed. Writes, in this order:
``metrics/compare.json``, ``reports/compare/comparison.json``, ``models/onnx/``. A model outside its
tolerance is never published. It stops the pipeline if ``compare.PRECISION.required`` is true, as it always is
for fp32; ``models/onnx/`` then stays as it was.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from tuneline.core.params.loading import load_params
from tuneline.core.paths import CANDIDATES, COMPARISON, METRICS, PREDICTIONS, TOKENIZED
from tuneline.core.runtime.errors import GateError
from tuneline.core.runtime.files import replace_directory
from tuneline.core.runtime.terminal import progress, say
from tuneline.core.stage.entry import require, run_stage
from tuneline.core.stage.records import Metrics, file_hash, write_record
from tuneline.core.stage.tables import SplitReader
from tuneline.judge.metrics.predictions import Predictions, read_predictions
from tuneline.judge.metrics.table import project_metric
from tuneline.model.tokens.tokenized_splits import TokenizedSplit
from tuneline.onnx.comparison import compare_logits, finite, judge_comparison, quality
from tuneline.onnx.comparison_records import ComparisonRecord, ModelComparison
from tuneline.onnx.decisions import ModelDecisions, cost_record, fitting_rows, new_rows
from tuneline.onnx.publication import publish_passed, way_on
from tuneline.onnx.session import OnnxClassifier, logits_of
from tuneline.onnx.usage import EXPORT_RECORD, UsageRecord

COMPARED_BATCH = 64
"""Rows of a forward pass, or windows of them; fewer where they have more than 512 tokens."""


def main() -> dict[str, float]:
    """Compare the exported models with the trained model, write metrics and report, and publish."""
    # inputs
    params = load_params()
    record = UsageRecord.read(require(CANDIDATES / EXPORT_RECORD, "export"))
    split = TokenizedSplit.read(SplitReader.open(TOKENIZED, params.evaluate.split, "tokenize"))
    trained = read_predictions(require(PREDICTIONS, "evaluate"), len(split), with_logits=True)
    metric = project_metric(trained.task.judged_as, params.train.metric)
    validation, validation_labels, validation_clusters = fitting_rows()
    new = new_rows(params.evaluate.split, len(split))
    params.check_class_names(trained.task.class_names)
    costs = cost_record(params.decide.costs, trained.task)
    run = partial(
        logits_of,
        outputs=split.task.outputs,
        pad_token_id=record.pad_token_id,
        batch_size=COMPARED_BATCH,
    )

    # each model: its outputs, what it does with them, and how far it is from the trained one
    models: dict[str, dict[str, Any]] = {}
    decisions = {}
    qualities = {}
    metrics: dict[str, float] = {}
    for precision in record.models:
        classifier = OnnxClassifier.exported(CANDIDATES, precision)
        with progress(f"compare: {precision}", len(split)) as step:
            logits = run(classifier, split, advance=step.advance)
            of_validation = run(classifier, validation)
        comparison = compare_logits(trained, logits, metric, params.compare.close_rmse, params.seed)
        validated = Predictions.of_logits(
            validation_labels, finite(of_validation), trained.task, validation_clusters
        )
        decisions[precision] = ModelDecisions.of(costs, validated, comparison.exported, new)
        violations, unclear = judge_comparison(comparison, params.compare.tolerance(precision))
        decided = replace(comparison.exported, task=decisions[precision].task)
        qualities[precision] = {**quality(decided, metric), **decisions[precision].metrics}
        models[precision] = {
            **comparison.metrics,
            **qualities[precision],
            "violations": violations,
            "unclear": unclear or None,
            "required": params.compare.stops(precision),
        }

    # which are published; with any message that stops the pipeline, none
    stopping = []
    for precision, model in models.items():
        if model["required"]:
            stopping += [f"{precision}: {message}" for message in model["violations"]]
    for precision, model in models.items():
        model["published"] = not stopping and not model["violations"]
        for name in ("max_abs_diff", "agreement", f"{metric.name}_drop"):
            metrics[f"{precision}_{name}"] = model[name]

    # metrics and report, also of a comparison that stops the pipeline
    write_record(METRICS / "compare.json", Metrics.of(metrics))
    report = ComparisonRecord(
        split=params.evaluate.split,
        rows=len(split),
        metric=metric.name,
        predictions=file_hash(PREDICTIONS),
        trained=quality(trained, metric),
        models={name: ModelComparison.model_validate(model) for name, model in models.items()},
    )
    with replace_directory(COMPARISON) as folder:
        write_record(folder / "comparison.json", report)
    if stopping:
        messages = "\n  ".join(stopping)
        raise GateError(
            f"an exported model failed its comparison with the trained one.\n  {messages}", way_on(stopping)
        )

    # publication
    say_judgements(report)
    publish_passed(record, report, qualities, decisions)
    return {"rows": len(split)}


def say_judgements(report: ComparisonRecord) -> None:
    """Print which models are not published, and which ones the rows do not show to be good enough."""
    for precision, model in report.models.items():
        if model.violations:
            say(f"compare: {precision} is not published: {'; '.join(model.violations)}", error=True)
        elif model.unclear:
            say(
                f"compare: {precision} is published, although these rows do not show that it is good enough:"
                f" {'; '.join(model.unclear)}"
            )


if __name__ == "__main__":
    run_stage("compare", main)
