"""Stops the line before anything is trained on bad data, and says why.

Reads ``data/raw`` and ``data/tokenized``. Derives scalar columns from them, judges those with Great Expectations, and writes
``reports/checks/`` and ``metrics/validate.json``. When a check of severity ``error`` fails, the stage ends with exit code 1
after the report is written.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from stages.entry import require, run_stage
from stages.errors import GateError
from stages.outs import replace_directory, write_json, write_metrics
from stages.params import Params
from stages.params.loading import load_params
from stages.paths import CHECKS, METRICS, RAW, SPLITS, TOKENIZED, TOKENIZER, split_file
from stages.tables import LABELS, read_labels

if TYPE_CHECKING:
    from stages.checks.running import Outcome
    from stages.checks.suites import Table


def tables(params: Params) -> "list[Table]":
    """Derives the scalar columns of every split, with what is expected of them."""
    from stages.checks.suites import Table, label_set, tokenized_suite
    from stages.checks.tokenized import tokenized_features
    from stages.checks.vocabulary import Vocabulary

    vocabulary = Vocabulary.read(TOKENIZER, len(params.data.text_columns))
    found = []
    for split in SPLITS:
        raw, tokenized = (require(split_file(folder, split), made_by) for folder, made_by in ((RAW, "download"), (TOKENIZED, "tokenize")))
        raw_labels = pq.read_table(raw, columns=[LABELS])[LABELS].to_numpy()
        frame = tokenized_features(tokenized, vocabulary)
        if len(frame) == len(raw_labels):
            frame[f"raw_{LABELS}"] = raw_labels
        suite = tokenized_suite(params.validate_, vocabulary, params.tokenize.max_length, len(raw_labels), list(frame.columns))
        labels = read_labels(raw)
        if labels.names is not None:
            labelled = split == params.evaluate.split or not np.all(raw_labels == -1)
            suite.append(label_set(params.validate_, labels.names, labelled))
        found.append(Table(f"tokenized/{split}", frame, suite))
    return found


def write_report(outcomes: "Sequence[Outcome]") -> None:
    """Writes ``reports/checks/checks.json``."""
    checks: list[dict[str, Any]] = [asdict(outcome) for outcome in outcomes]
    with replace_directory(CHECKS) as folder:
        write_json(folder / "checks.json", {"passed": not failed(outcomes), "checks": json.loads(json.dumps(checks, default=str))})


def failed(outcomes: "Sequence[Outcome]") -> "list[Outcome]":
    """The outcomes that end the stage."""
    return [outcome for outcome in outcomes if outcome.crashed or (not outcome.passed and outcome.severity == "error")]


def main() -> dict[str, float]:
    """Checks the data, writes the report, and only then complains."""
    params = load_params()
    from stages.checks.running import outcomes, run_suites

    checked = tables(params)
    found = list(outcomes(run_suites(checked)))
    write_report(found)
    metrics = {f"{table.name.partition('/')[2]}_rows": len(table.frame) for table in checked}
    write_metrics(METRICS / "validate.json", {**metrics, "errors": len(failed(found))})
    if bad := failed(found):
        first = bad[0]
        raise GateError(
            f"{len(bad)} checks failed, the first is {first.check} in {first.table}: {first.unexpected} of {first.rows} rows.",
            f"{Path(CHECKS) / 'checks.json'} has them all.",
        )
    return {"rows": sum(metrics.values())}


if __name__ == "__main__":
    run_stage("validate", main)
