"""Write the page about the model and its card, and print the verdict.

Reads: metrics, predictions, checks, plots and records of the other stages, ``dvc.lock``, and facts of git and
of this machine. Writes: ``reports/index.html``, ``reports/model_card.md``, and ``reports/report.json``.

Page and card are not outs, because ``dvc.lock`` must not record facts of git and of the machine.
``reports/report.json`` is the out instead: its content is always the same, and it is in no cache. It is
missing in a new clone, so DVC runs this stage there although ``dvc.lock`` fits, and the page appears.
"""

from pathlib import Path

from tuneline.core.paths import REPORTS
from tuneline.core.runtime.files import write_json
from tuneline.core.stage.entry import run_stage
from tuneline.page.page import CARD, PAGE, read_report, write_report

REPORT = REPORTS / "report.json"


def main() -> None:
    """Write page and card."""
    root = Path()
    write_report(root, read_report(root))
    write_json(REPORT, {"page": str(PAGE), "card": str(CARD)})


if __name__ == "__main__":
    run_stage("report", main)
