"""Stops the line before anything is trained on bad data, and says why.

Reads ``data/raw``, ``data/tokenized`` and, when there is one, ``data/reference/profile.json``: what the data of the promoted model
looked like. Derives scalar columns from the splits, and has Great Expectations judge them. Writes ``reports/checks/``
(``index.html`` for people, ``checks.json`` for machines, ``profile.json`` for the next promotion) and ``metrics/validate.json``.
When a check of severity ``error`` fails, or any check crashes, the stage ends with exit code 1 after the report is written, and
without ``reports/checks/passed``, which training waits for. docs/data-checks.md explains every check.
"""

from typing import TYPE_CHECKING

from tuneline.errors import GateError
from tuneline.files import replace_directory, write_metrics
from tuneline.params.loading import load_params
from tuneline.paths import CHECKS, METRICS, RAW, REFERENCE_PROFILE, SPLITS, TOKENIZED, split_file
from tuneline.stage import require, run_stage

if TYPE_CHECKING:
    from stages.validate.report.verdict import Verdict


def main() -> dict[str, float]:
    """Checks the data, writes the report, and only then complains."""
    params = load_params()
    for split in SPLITS:
        require(split_file(RAW, split), "download")
        require(split_file(TOKENIZED, split), "tokenize")

    from stages.validate.checking import check  # Great Expectations takes seconds to import
    from stages.validate.gathering import Places
    from stages.validate.profile import Profile
    from stages.validate.report.writing import write_report

    promoted = Profile.read(REFERENCE_PROFILE) if REFERENCE_PROFILE.exists() else None
    metrics = METRICS / "validate.json"
    metrics.unlink(missing_ok=True)
    checked = check(params, Places(RAW, TOKENIZED), promoted)
    with replace_directory(CHECKS) as folder:
        write_report(folder, checked.verdict, checked.results, checked.profile)
    stop(checked.verdict)
    write_metrics(metrics, {**checked.verdict.figures, "warnings": len(checked.verdict.warnings)})
    return {"expectations": len(checked.verdict.findings), "warnings": len(checked.verdict.warnings)}


def stop(verdict: "Verdict") -> None:
    """Ends the stage when the data may not be trained on.

    Raises:
        GateError: It may not; the message names each check and split, and where the report is.
    """
    for finding in verdict.warnings:
        print(f"validate: warning: {finding.outcome.check}, {finding.outcome.table.split}: {finding.found}; allowed: {finding.allowed}.")
    if verdict.errors:
        said = [
            f"{finding.outcome.check}, {finding.outcome.table.split}: {finding.found}"
            + ("; the check itself crashed." if finding.status == "crashed" else f"; allowed: {finding.allowed}.")
            for finding in verdict.errors
        ]
        count = f"{len(said)} check{'s' * (len(said) > 1)} failed"
        raise GateError("\n  ".join([f"{count}; nothing is trained on this data.", *said]), f"{CHECKS / 'index.html'} shows the rows.")


if __name__ == "__main__":
    run_stage("validate", main)
