"""Stage ``validate``: check the data before training, and stop the pipeline if it must not be trained on.

Reads ``data/raw``, ``data/tokenized`` and, if it exists, ``data/reference/profile.json``, the profile of the promoted model's data.
Derives scalar columns from the splits and checks them with Great Expectations. Writes ``reports/checks/`` (``index.html`` for people,
``checks.json`` for machines, ``profile.json`` for the next promotion, ``rows/`` with all violating rows) and ``metrics/validate.json``.
If a check of severity ``error`` fails, or any check crashes, the stage ends with exit code 1 after the report is written, and does not
write ``reports/checks/passed``, which training depends on. docs/data-checks.md explains every check.
"""

from typing import TYPE_CHECKING

from stages.validate.imports import fewer_imports
from tuneline.errors import GateError
from tuneline.files import replace_directory, working_directory
from tuneline.files.shards import SplitReader
from tuneline.launch import check_launch
from tuneline.params.loading import load_params
from tuneline.paths import CHECKS, FAILING_ROWS, METRICS, RAW, REFERENCE_PROFILE, REPORTS, SPLITS, TOKENIZED
from tuneline.records.metrics import Metrics
from tuneline.records.profile import Profile
from tuneline.stage import run_stage
from tuneline.terminal import progress, say

if TYPE_CHECKING:
    from stages.validate.results import CheckResults

FETCH_REFERENCE = "Fetch it again (`python -m flows.promotion.reference`), or remove the file."

DERIVED = REPORTS / "columns"
"""Beside it is the folder of what is derived from the data: on the disk that the workers of an engine share, and removed in the end."""


def main() -> dict[str, float]:
    """Check the data, write the report, and then fail if there are errors."""
    params = load_params()
    check_launch(params.train)
    for split in SPLITS:
        SplitReader.open(RAW, split, "download")
        SplitReader.open(TOKENIZED, split, "tokenize")

    with fewer_imports():  # only now: importing Great Expectations takes seconds
        from stages.validate.checks import require_parameters
        from stages.validate.report import write_report
        from stages.validate.results import check_tables
        from stages.validate.row_files import write_row_files
        from stages.validate.tables import DataFolders, derive_tables

    require_parameters(params.validate_)
    promoted = Profile.read_if_exists(REFERENCE_PROFILE, FETCH_REFERENCE)
    metrics = METRICS / "validate.json"
    metrics.unlink(missing_ok=True)
    with progress("validate") as step, working_directory(DERIVED) as derived:
        data = derive_tables(params, DataFolders(RAW, TOKENIZED, derived), promoted)
        step.detail = "checks"
        results = check_tables(data)
        step.detail = "report"
        with replace_directory(CHECKS) as folder:
            write_row_files(folder / FAILING_ROWS.name, [result.outcome for result in results.results], data)
            write_report(folder, results)  # after the files of rows, to which its page links
    stop_on_errors(results)
    Metrics.of({**results.metrics, "warnings": len(results.warnings)}).write(metrics)
    return {"expectations": len(results.results), "warnings": len(results.warnings)}


def stop_on_errors(results: "CheckResults") -> None:
    """Print warnings, and raise if there are errors.

    Raises:
        GateError: A check of severity ``error`` failed or a check crashed. The message names each check and split, and the report.
    """
    for warning in results.warnings:
        say(f"validate: warning: {warning.check.key}, {warning.split}: {warning.found}; allowed: {warning.allowed}.")
    if results.errors:
        messages = [
            f"{error.check.key}, {error.split}: {error.found}"
            + ("; the check itself crashed." if error.status == "crashed" else f"; allowed: {error.allowed}.")
            for error in results.errors
        ]
        count = f"{len(messages)} check{'s' * (len(messages) > 1)} failed"
        raise GateError("\n  ".join([f"{count}; nothing is trained on this data.", *messages]), f"{CHECKS / 'index.html'} shows the rows.")


if __name__ == "__main__":
    run_stage("validate", main)
