"""Compare the exported models with the trained model on every row of the split, and publish the good ones.

Reads: ``models/candidates/``; the reported split in ``data/tokenized/`` and ``data/raw/`` (for the text of
rows that flip), and validation in ``data/tokenized/``, which fits the temperature of each model; the trained
model's logits in ``reports/predictions.parquet``; ``reports/checks/clusters/``, which rows are independent;
``reports/checks/rows/``, which reported rows are not new. torch is not needed. Writes, in this order:
``metrics/compare.json``, ``reports/compare/{comparison,flips}.json``, ``models/onnx/``. A model outside its
tolerance is never published. It stops the pipeline if ``compare.PRECISION.required`` is true, as it always is
for fp32.
"""

import shutil
from collections.abc import Mapping, Sequence
from functools import partial

from stages.compare.decisions import FittingRows, ModelDecisions, ModelOutputs, cost_record, new_rows
from stages.compare.logits import LogitComparison, TrainedLogits, compare_logits, describe_flips
from stages.compare.publication import PublishedModel, publish_passed, select_published, way_on
from stages.compare.tolerance import ToleranceJudgement, judge_comparison
from tuneline.core.hashes import file_hash
from tuneline.core.records import Metrics, write_record
from tuneline.core.stage import require, run_stage
from tuneline.core.tables import SplitReader
from tuneline.metrics.judging import averaging
from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.onnx.comparison_records import ComparisonRecord, Flips, ModelComparison
from tuneline.onnx.session import OnnxClassifier, logits_of
from tuneline.onnx.usage import EXPORT_RECORD, UsageRecord
from tuneline.params import CompareParams, Params
from tuneline.params.loading import load_params
from tuneline.paths import CANDIDATES, COMPARISON, METRICS, ONNX, PREDICTIONS, RAW, TOKENIZED
from tuneline.predictions.files import read_logits
from tuneline.runtime.atomic_files import replace_directory
from tuneline.runtime.errors import GateError
from tuneline.runtime.terminal import say
from tuneline.tasks.task import Logits

COMPARED_BATCH = 64
"""Rows of a forward pass, or windows of them; fewer where they have more than 512 tokens."""
ToleranceJudgements = Mapping[str, ToleranceJudgement]
"""Whether each model is within its tolerance, by precision."""


def main() -> dict[str, float]:
    """Compare the exported models with the trained model, write metrics and report, and publish."""
    # inputs
    params = load_params()
    record = UsageRecord.read(require(CANDIDATES / EXPORT_RECORD, "export"))
    split = TokenizedSplit.read(SplitReader.open(TOKENIZED, params.evaluate.split, "tokenize"))
    trained = read_logits(require(PREDICTIONS, "evaluate"), len(split))
    average = averaging(trained.task)
    reference = TrainedLogits(
        split.labels, trained.task, trained.logits, params.train.metric, average, trained.clusters
    )

    # outputs of each model, and what it does with them
    validation = FittingRows.read()
    costs = cost_record(params.decide.costs, trained.task)
    exported = {}
    decisions = {}
    run = partial(
        logits_of,
        outputs=split.task.outputs,
        pad_token_id=record.pad_token_id,
        batch_size=COMPARED_BATCH,
    )
    for precision in record.models:
        classifier = OnnxClassifier.exported(CANDIDATES, precision)
        exported[precision] = run(classifier, split, title=precision)
        of_validation = run(classifier, validation.rows, title=f"{precision}, validation")
        decisions[precision] = ModelDecisions.of(
            trained.task,
            costs,
            validation.outputs(of_validation),
            ModelOutputs(split.labels, exported[precision], trained.clusters),
            new_rows(params.evaluate.split, len(split)),
        )

    # comparison
    comparisons, judgements = compare_exports(params.compare, exported, reference, params.seed)
    qualities = {}
    for precision, decided in decisions.items():
        quality = reference.quality(decided.task, comparisons[precision].logits)
        qualities[precision] = {**quality, **decided.metrics}
    published, stopping = select_published(judgements, params.compare)

    # metrics and report, also of a comparison that stops the pipeline
    metrics = comparison_metrics(comparisons, qualities, reference, published)
    write_record(METRICS / "compare.json", Metrics.of(metrics))
    write_comparison_files(params, comparisons, qualities, judgements, reference, published=published)
    if stopping:
        shutil.rmtree(ONNX, ignore_errors=True)  # from an earlier run without DVC, which removes it by itself
        message = "\n  ".join(["an exported model failed its comparison with the trained one.", *stopping])
        raise GateError(message, way_on(stopping))

    # publication
    say_judgements(judgements)
    passed = {}
    for precision in published:
        passed[precision] = PublishedModel(qualities[precision], decisions[precision])
    left_out = {
        precision: judgement.violations for precision, judgement in judgements.items() if judgement.violations
    }
    publish_passed(record, passed, left_out, params.evaluate.split)
    return {"rows": len(split)}


def compare_exports(
    params: CompareParams,
    exported: Mapping[str, Logits],
    reference: TrainedLogits,
    seed: int,
) -> tuple[dict[str, LogitComparison], ToleranceJudgements]:
    """Compare every exported model with the trained one, and judge it; return both by precision."""
    comparisons, judgements = {}, {}
    for precision, logits in exported.items():
        comparison = compare_logits(reference, logits, params.close_rmse, seed)
        comparisons[precision] = comparison
        judgements[precision] = judge_comparison(
            comparison, params.tolerance(precision), reference.metric.name
        )
    return comparisons, judgements


def comparison_metrics(
    comparisons: Mapping[str, LogitComparison],
    qualities: Mapping[str, Mapping[str, float]],
    reference: TrainedLogits,
    published: Sequence[str],
) -> dict[str, float]:
    """Return the metrics for ``metrics/compare.json``, each with its precision as prefix.

    ``reports/compare/comparison.json`` has all others.
    """
    metric = reference.metric.name
    metrics: dict[str, float] = {}
    for precision, comparison in comparisons.items():
        metrics[f"{precision}_{metric}"] = qualities[precision][metric]
        for name in ("max_abs_diff", "agreement", f"{metric}_drop"):
            metrics[f"{precision}_{name}"] = comparison.metrics[name]
        metrics[f"{precision}_published"] = int(precision in published)
    return metrics


def write_comparison_files(
    params: Params,
    comparisons: Mapping[str, LogitComparison],
    qualities: Mapping[str, Mapping[str, float]],
    judgements: ToleranceJudgements,
    reference: TrainedLogits,
    *,
    published: Sequence[str],
) -> None:
    """Write ``comparison.json`` and ``flips.json``; all mappings are by precision."""
    raw = SplitReader.open(RAW, params.evaluate.split, made_by="download")
    models, flips = {}, {}
    for precision, comparison in comparisons.items():
        judgement = judgements[precision]
        values = {
            **comparison.metrics,
            **qualities[precision],
            "violations": judgement.violations,
            "unclear": judgement.unclear or None,
            "required": params.compare.stops(precision),
            "published": precision in published,
        }
        models[precision] = ModelComparison.model_validate(values)
        flips[precision] = describe_flips(comparison, reference, raw, params.data.text_columns)

    report = ComparisonRecord(
        split=params.evaluate.split,
        rows=len(reference.labels),
        metric=reference.metric.name,
        predictions=file_hash(PREDICTIONS),
        trained=reference.quality(reference.task, reference.logits),
        models=models,
    )
    with replace_directory(COMPARISON) as folder:
        write_record(folder / "comparison.json", report)
        write_record(folder / "flips.json", Flips.model_validate(flips))


def say_judgements(judgements: ToleranceJudgements) -> None:
    """Print which models are not published, and which ones the rows do not show to be good enough."""
    for precision, judgement in judgements.items():
        if judgement.violations:
            say(f"compare: {precision} is not published: {'; '.join(judgement.violations)}", error=True)
        elif judgement.unclear:
            say(
                f"compare: {precision} is published, although these rows do not show that it is good enough:"
                f" {'; '.join(judgement.unclear)}"
            )


if __name__ == "__main__":
    run_stage("compare", main)
