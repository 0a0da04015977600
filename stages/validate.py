"""Stage ``validate``: check the data before training, and stop the pipeline if it must not be trained on.

Reads ``data/raw``, ``reports/download/groups``, ``data/tokenized`` and, if it exists,
``data/reference/profile.json``, the profile of the promoted model's data. Derives scalar columns from the
splits and checks them with Great Expectations. Writes ``reports/checks/`` (``index.html`` for people,
``checks.json`` for machines, ``profile.json`` for the next promotion, ``rows/`` with all violating rows,
``clusters/`` with the rows that are not independent) and ``metrics/validate.json``. If a check of severity
``error`` fails, the stage ends with exit code 78 after the report is written, and does not write
``reports/checks/passed``, which training depends on. docs/data-checks.md explains every check.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from tuneline.checks.expectations import check_tables, write_row_files
from tuneline.checks.results import Profile
from tuneline.core.params import Params
from tuneline.core.params.loading import load_params
from tuneline.core.paths import (
    CHECKS,
    CLUSTERS,
    FAILING_ROWS,
    METRICS,
    RAW,
    REFERENCE_PROFILE,
    REPORTS,
    SPLITS,
    TOKENIZED,
)
from tuneline.core.runtime.errors import GateError
from tuneline.core.runtime.files import replace_directory, working_directory
from tuneline.core.runtime.terminal import progress, say
from tuneline.core.stage.entry import run_stage
from tuneline.core.stage.launch import check_launch
from tuneline.core.stage.records import Metrics, write_record
from tuneline.core.stage.tables import CLUSTER, SplitReader, write_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuneline.checks.analysis.clusters import Clusters
    from tuneline.checks.expectations import CheckResults

TRUNCATION = "truncation_rate"
"""The check whose rows are no reason to leave them out."""
FETCH_REFERENCE = "Remove the file: a run of flow train writes it."

DERIVED = REPORTS / "columns"
"""Beside it is the folder of what is derived from the data.

It is on the disk that the workers of an engine share, and removed in the end.
"""


def main() -> dict[str, float]:
    """Check the data, write the report, and then fail if there are errors."""
    # inputs: what is missing is reported at once
    params = _as_divided(load_params())
    check_launch(params.train.launch)
    for split in SPLITS:
        SplitReader.open(RAW, split, "download")
        SplitReader.open(TOKENIZED, split, "tokenize")

    # only now, because importing Great Expectations takes seconds
    from tuneline.checks.report import write_checks
    from tuneline.checks.tables import DataFolders, derive_tables

    promoted = Profile.read_if_exists(REFERENCE_PROFILE, FETCH_REFERENCE)
    metrics = METRICS / "validate.json"
    metrics.unlink(missing_ok=True)  # old ones must not stay if the checks stop the pipeline

    # tables, checks and report
    with progress("validate") as step, working_directory(DERIVED) as derived:
        data = derive_tables(params, DataFolders(RAW, TOKENIZED, derived), promoted)
        step.detail = "checks"
        results = check_tables(data)
        step.detail = "report"
        with replace_directory(CHECKS) as folder:
            write_row_files(folder / FAILING_ROWS.name, results.outcomes, data.raw, params.data.text_columns)
            write_clusters(folder / CLUSTERS.name, data.clusters)
            write_checks(folder, results)  # after the files of rows, to which its page links

    stop_on_errors(results)
    write_record(metrics, Metrics.of({**results.metrics, "warnings": len(results.warnings)}))
    return {"expectations": len(results.record.checks), "warnings": len(results.warnings)}


def _as_divided(params: Params) -> Params:
    """Return the parameters with leaks as a warning, unless they say otherwise, in a division by time.

    People send the same texts all year: a model meets them again when it is used, too.
    """
    split = params.data.split
    if split is None or split.by_time is None:
        return params
    severity = {"leakage": "warning", **params.validate_.severity}
    checks = params.validate_.model_copy(update={"severity": severity})
    return params.model_copy(update={"validate_": checks})


def write_clusters(folder: Path, clusters: "Mapping[str, Clusters]") -> None:
    """Write which rows of each split are not independent of each other, whatever the checks allow."""
    folder.mkdir()
    for split, members in clusters.items():
        write_numbers(folder / f"{split}.parquet", CLUSTER, members)


def stop_on_errors(results: "CheckResults") -> None:
    """Print warnings, and stop the pipeline if there are errors.

    Raises:
        GateError: If a check of severity ``error`` failed. The message names all of them.
    """
    for warning in results.warnings:
        say(f"validate: warning: {warning}.")
    if not results.errors:
        return

    # problem
    count = "1 check" if len(results.errors) == 1 else f"{len(results.errors)} checks"
    lines = [f"{count} failed; nothing is trained on this data."]
    for error in results.errors:
        lines.append(f"{error}.")
        lines += [f"  {note}" for note in error.notes]

    # hint: long texts can be read, and are no reason to leave rows out
    hint = f"{CHECKS / 'index.html'} shows the rows."
    failed = dict.fromkeys(error.check for error in results.errors)
    if TRUNCATION in failed:
        hint += " Long texts: docs/long-documents.md."
        failed.pop(TRUNCATION)
    commands = []
    for check in failed:
        rows = FAILING_ROWS / f"{check}.parquet"
        if not rows.exists():
            continue
        command = f"tuneline data drop --check {check}"
        if "other_split" in pq.read_schema(rows).names:  # of a pair in two splits, the row of train
            command += " --from train"
        commands.append(f"`{command}`")
    if commands:
        hint += f" To leave them out: {' && '.join(commands)}; then `dvc repro`."
    raise GateError("\n  ".join(lines), hint)


if __name__ == "__main__":
    run_stage("validate", main)
