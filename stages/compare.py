"""Holds the exported models against the trained one, and publishes those that predict what it does.

Reads ``models/candidates``, the reported split in ``data/tokenized`` and the trained model's logits in
``reports/predictions.parquet``; torch is not needed. Writes ``metrics/compare.json``, ``reports/compare/`` and
``models/onnx``, in this order. A model outside its tolerance stops the line, unless its ``required`` says that
the line goes on without it.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from stages.batches import TokenizedSplit
from stages.entry import require, run_stage
from stages.errors import DataError, GateError
from stages.outs import replace_directory, write_json, write_metrics
from stages.params import CompareParams
from stages.params.loading import load_params
from stages.parity.comparison import Comparison, Logits, compare_logits, faults
from stages.paths import CANDIDATES, COMPARISON, METRICS, ONNX, PREDICTIONS, TOKENIZED, split_file
from stages.serving.session import OnnxClassifier, logits_of


def read_logits(path: Path, rows: int) -> Logits:
    """The trained model's logits, in the order of the split.

    Raises:
        DataError: They are not of this split.
    """
    table = pq.read_table(path, columns=["idx", "logits"])
    idx = table["idx"].to_numpy()
    if not np.array_equal(np.sort(idx), np.arange(rows)):
        raise DataError(f"{path} has not exactly one prediction for each of the {rows} rows.", "Run `dvc repro evaluate`.")
    logits = np.stack(table["logits"].to_numpy())
    return np.asarray(logits[np.argsort(idx)], dtype=np.float32)


def compare(
    params: CompareParams, models: Mapping[str, Path], split: TokenizedSplit, pad_token_id: int, trained: Logits
) -> dict[str, Comparison]:
    """Compares every model with the trained one's logits."""
    found = {}
    for precision, path in models.items():
        exported = logits_of(OnnxClassifier(path), split, pad_token_id, params.batch_size)
        found[precision] = compare_logits(trained, exported, split.labels, split.spec, params.close)
    return found


def publish(record: Mapping[str, Any], passed: Sequence[str]) -> None:
    """Copies what passed to ``models/onnx``, and everything else of the candidates' folder but the models."""
    models = {model["file"] for model in record["models"].values()}
    kept = {record["models"][precision]["file"] for precision in passed}
    with replace_directory(ONNX) as folder:
        for path in sorted(CANDIDATES.iterdir()):
            if path.name not in models or path.name in kept:
                shutil.copyfile(path, folder / path.name)
        write_json(folder / "export.json", {**record, "models": {name: record["models"][name] for name in passed}})


def main() -> dict[str, float]:
    """Reads what was exported and what was predicted, compares, writes, and judges."""
    params = load_params()
    record = json.loads(require(CANDIDATES / "export.json", "export").read_text(encoding="utf-8"))
    split = TokenizedSplit.read(require(split_file(TOKENIZED, params.evaluate.split), "tokenize"))
    trained = read_logits(require(PREDICTIONS, "evaluate"), len(split))
    models = {precision: CANDIDATES / model["file"] for precision, model in record["models"].items()}
    found = compare(params.compare, models, split, record["pad_token_id"], trained)
    write_metrics(METRICS / "compare.json", {f"{name}_{key}": value for name, one in found.items() for key, value in one.metrics.items()})
    said = {name: faults(one, params.compare.tolerance(name), split.spec) for name, one in found.items()}  # type: ignore[arg-type]
    with replace_directory(COMPARISON) as folder:
        write_json(folder / "verdict.json", {name: {"passed": not faulty, "faults": faulty} for name, faulty in said.items()})
    stopping = [f"{name}: {fault}" for name in said for fault in said[name] if params.compare.tolerance(name).required]  # type: ignore[arg-type]
    if stopping:
        raise GateError("\n  ".join(["an exported model does not predict what the trained one does:", *stopping]))
    publish(record, [name for name, faulty in said.items() if not faulty])
    return {"rows": len(split)}


if __name__ == "__main__":
    run_stage("compare", main)
