"""Holds the exported models against the trained one on every row of the reported split, and publishes those that pass.

Reads ``models/candidates``, the reported split in ``data/tokenized`` and ``data/raw`` (for the text of rows that flip), and
the trained model's logits in ``reports/predictions.parquet``; torch is not needed. Writes, in this order,
``metrics/compare.json``, ``reports/compare/`` (``comparison.json`` with figures and verdicts, ``flips.json``) and
``models/onnx``. A model outside its tolerance is never published. It stops the line, unless its ``required`` says that the
line goes on without it.
"""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow.parquet as pq

from stages.compare.comparison import Comparison, Logits, Rows, compare_logits, faults_of
from stages.compare.flips import describe_flips
from stages.compare.saturation import Saturation, check_saturation
from tuneline.batches import TokenizedSplit, length_sorted_batches
from tuneline.errors import DataError, GateError
from tuneline.files import replace_directory, write_json, write_metrics
from tuneline.onnx.session import OnnxClassifier, logits_of
from tuneline.params import CompareParams, Params
from tuneline.params.loading import load_params
from tuneline.paths import CANDIDATES, COMPARISON, METRICS, ONNX, PREDICTIONS, RAW, TOKENIZED, split_file
from tuneline.stage import require, run_stage

Record = Mapping[str, Any]
Faults = Mapping[str, Sequence[str]]
"""By precision, what is outside its tolerance."""
SATURATION_ROWS = 64
"""Rows of the reported split, at most, on which saturated products are counted."""


def compare(
    params: CompareParams, exported: Mapping[str, Logits], saturation: Mapping[str, Saturation], rows: Rows, seed: int
) -> tuple[dict[str, Comparison], Faults]:
    """Compares the logits of every exported model with the trained one's, and judges.

    Returns:
        By precision: the comparison, and what is outside the tolerance.
    """
    found = {
        precision: replace(compare_logits(rows, logits, params.close, seed), saturation=saturation.get(precision))
        for precision, logits in exported.items()
    }
    return found, {precision: faults_of(one, params.tolerance(precision), rows.metric) for precision, one in found.items()}


def saturation_of(record: Record, split: TokenizedSplit) -> dict[str, Saturation]:
    """Check the products of the int8 model, where there is one."""
    if "int8" not in record["models"]:
        return {}
    rows = split.take(np.arange(min(SATURATION_ROWS, len(split))))
    batches = (rows.pad(batch, record["pad_token_id"]) for batch in length_sorted_batches(rows.lengths, 16))
    return {"int8": check_saturation(CANDIDATES / record["models"]["int8"]["file"], batches)}


def read_logits(path: Path, rows: int) -> Logits:
    """The trained model's logits, in the order of the split.

    Raises:
        DataError: They are not of this split.
    """
    table = pq.read_table(path, columns=["idx", "logits"])
    idx = table["idx"].to_numpy()
    if not np.array_equal(np.sort(idx), np.arange(rows)):
        raise DataError(f"{path} has not exactly one prediction for each of the {rows} rows.", "Run `dvc repro evaluate`.")
    logits = np.stack(table["logits"].to_numpy()).astype(np.float32)
    return np.asarray(logits[np.argsort(idx)])


def metrics_of(found: Mapping[str, Comparison], rows: Rows, published: Sequence[str]) -> dict[str, float]:
    """The figures for ``dvc metrics``, each with its precision before it."""
    figures = {f"trained_{name}": value for name, value in rows.quality(rows.trained).items()}
    for precision, one in found.items():
        figures |= {f"{precision}_{name}": value for name, value in one.metrics.items()}
        if one.saturation:
            figures[f"{precision}_can_saturate"] = int(one.saturation.possible)
        figures[f"{precision}_published"] = int(precision in published)
    return figures


def write_report(params: Params, found: Mapping[str, Comparison], faults: Faults, rows: Rows, published: Sequence[str]) -> None:
    """Writes ``reports/compare/``."""
    models = {
        precision: {
            **{name: round(value, 6) for name, value in one.metrics.items()},
            **({"saturation": one.saturation.record()} if one.saturation else {}),
            "faults": list(faults[precision]),
            "required": params.compare.tolerance(precision).required,
            "published": precision in published,
        }
        for precision, one in found.items()
    }
    trained = {name: round(value, 6) for name, value in rows.quality(rows.trained).items()}
    raw = require(split_file(RAW, params.evaluate.split), "download")
    flips = {precision: describe_flips(one, rows, raw, params.data.text_columns) for precision, one in found.items()}
    with replace_directory(COMPARISON) as folder:
        head = {"split": params.evaluate.split, "rows": len(rows.labels), "metric": rows.metric, "trained": trained}
        write_json(folder / "comparison.json", {**head, "models": models})
        write_json(folder / "flips.json", flips)


def publish(record: Record, passed: Sequence[str]) -> None:
    """Fills ``models/onnx`` with what passed, and with all of the candidates' folder that is no model."""
    models = record["models"]
    left = {file for precision in models if precision not in passed for file in models[precision]["sha256"]}
    with replace_directory(ONNX) as folder:
        for path in sorted(CANDIDATES.iterdir()):
            if path.name not in left:
                shutil.copyfile(path, folder / path.name)
        write_json(folder / "export.json", {**record, "models": {precision: models[precision] for precision in passed}})


def judge(faults: Faults, params: CompareParams) -> tuple[list[str], list[str]]:
    """Says which models may be published, and what stops the line: then none may."""
    failed = [precision for precision, said in faults.items() if said]
    stopping = [f"{precision}: {fault}" for precision in failed if params.tolerance(precision).required for fault in faults[precision]]
    return ([] if stopping else [precision for precision in faults if precision not in failed]), stopping


def refuse(stopping: Sequence[str]) -> NoReturn:
    """Ends the stage, and leaves nothing published.

    Raises:
        GateError: Always; the message names every fault.
    """
    shutil.rmtree(ONNX, ignore_errors=True)  # of an earlier run by hand; DVC removes it by itself
    said = "\n  ".join(["an exported model failed its comparison with the trained one.", *stopping])
    raise GateError(said, f"Rows are counted from 0 in the reported split; their text is in {COMPARISON}/flips.json.")


def main() -> dict[str, float]:
    """Reads what was exported and what was predicted, compares, writes, judges, publishes."""
    params = load_params()
    record: Record = json.loads(require(CANDIDATES / "export.json", "export").read_text(encoding="utf-8"))
    split = TokenizedSplit.read(require(split_file(TOKENIZED, params.evaluate.split), "tokenize"))
    rows = Rows(split.labels, split.label_schema, read_logits(require(PREDICTIONS, "evaluate"), len(split)))
    exported = {
        precision: logits_of(
            OnnxClassifier(CANDIDATES / model["file"]), split, record["pad_token_id"], params.compare.batch_size, precision
        )
        for precision, model in record["models"].items()
    }
    found, faults = compare(params.compare, exported, saturation_of(record, split), rows, params.seed)
    published, stopping = judge(faults, params.compare)
    write_metrics(METRICS / "compare.json", metrics_of(found, rows, published))
    write_report(params, found, faults, rows, published)
    if stopping:
        refuse(stopping)
    for precision in sorted(set(found) - set(published)):
        print(f"compare: {precision} is not published: {'; '.join(faults[precision])}", file=sys.stderr)
    publish(record, published)
    return {"rows": len(split)}


if __name__ == "__main__":
    run_stage("compare", main)
