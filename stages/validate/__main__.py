"""Stage ``validate``: check the data before training, and stop the pipeline if it must not be trained on.

Reads ``data/raw``, ``data/tokenized`` and, if it exists, ``data/reference/profile.json``, the profile of the
promoted model's data. Derives scalar columns from the splits and checks them with Great Expectations. Writes
``reports/checks/`` (``index.html`` for people, ``checks.json`` for machines, ``profile.json`` for the next
promotion, ``rows/`` with all violating rows) and ``metrics/validate.json``. If a check of severity ``error``
fails, or any check crashes, the stage ends with exit code 1 after the report is written, and does not write
``reports/checks/passed``, which training depends on. docs/data-checks.md explains every check.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from tuneline.core.atomic_files import replace_directory, working_directory
from tuneline.core.errors import GateError
from tuneline.core.launch import check_launch
from tuneline.core.paths import (
    CHECKS,
    FAILING_ROWS,
    METRICS,
    RAW,
    REFERENCE_PROFILE,
    REPORTS,
    SPLITS,
    TOKENIZED,
)
from tuneline.core.records import Metrics
from tuneline.core.stage import run_stage
from tuneline.core.tables import SplitReader
from tuneline.core.terminal import progress, say
from tuneline.params.loading import load_params
from tuneline.reports.checks import Profile

if TYPE_CHECKING:
    from stages.validate.expectations import CheckResults

FETCH_REFERENCE = "Fetch it again (`python -m flows.promotion reference`), or remove the file."

DERIVED = REPORTS / "columns"
"""Beside it is the folder of what is derived from the data: on the disk that the workers of an engine share, and removed in the end."""


def main() -> dict[str, float]:
    """Check the data, write the report, and then fail if there are errors."""
    params = load_params()
    check_launch(params.train.launch, params.train.optimizer)
    for split in SPLITS:
        SplitReader.open(RAW, split, "download")
        SplitReader.open(TOKENIZED, split, "tokenize")

    # Only now, because importing Great Expectations takes seconds.
    from stages.validate.expectations import check_tables, write_row_files
    from stages.validate.report import write_checks
    from stages.validate.tables import DataFolders, derive_tables

    promoted = Profile.read_if_exists(REFERENCE_PROFILE, FETCH_REFERENCE)
    metrics = METRICS / "validate.json"
    metrics.unlink(missing_ok=True)
    with progress("validate") as step, working_directory(DERIVED) as derived:
        data = derive_tables(params, DataFolders(RAW, TOKENIZED, derived), promoted)
        step.detail = "checks"
        results = check_tables(data)
        step.detail = "report"
        with replace_directory(CHECKS) as folder:
            write_row_files(
                folder / FAILING_ROWS.name, results.violations, data.raw, params.data.text_columns
            )
            write_checks(folder, results)  # after the files of rows, to which its page links
    stop_on_errors(results)
    Metrics.of({**results.record.metrics, "warnings": len(results.warnings)}).write(metrics)
    return {"expectations": len(results.record.checks), "warnings": len(results.warnings)}


def stop_on_errors(results: "CheckResults") -> None:
    """Print warnings, and raise a GateError that names each check of severity ``error`` that failed, and each that crashed."""
    for warning in results.warnings:
        say(
            f"validate: warning: {warning.check}, {warning.split}: {warning.found}; allowed:"
            f" {warning.allowed}."
        )
    if results.errors:
        messages = [
            f"{error.check}, {error.split}: {error.found}"
            + ("; the check itself crashed." if error.status == "crashed" else f"; allowed: {error.allowed}.")
            for error in results.errors
        ]
        count = f"{len(messages)} check{'s' * (len(messages) > 1)} failed"
        hint = f"{CHECKS / 'index.html'} shows the rows."
        failed = dict.fromkeys(error.check for error in results.errors)
        commands = [drop_command(check) for check in failed if row_file(check).exists()]
        if commands:
            hint += f" To leave them out: {' && '.join(commands)}; then `dvc repro`."
        raise GateError("\n  ".join([f"{count}; nothing is trained on this data.", *messages]), hint)


def row_file(check: str) -> Path:
    """Return the file with the rows that violate a check, if there are any."""
    return FAILING_ROWS / f"{check}.parquet"


def drop_command(check: str) -> str:
    """Return the command that leaves out the rows of a check; of two rows in different splits, that of train."""
    has_pairs = "other_split" in pq.read_schema(row_file(check)).names
    return f"`tuneline data drop --check {check}{' --from train' * has_pairs}`"


if __name__ == "__main__":
    run_stage("validate", main)
