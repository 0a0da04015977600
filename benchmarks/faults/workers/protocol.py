"""What a worker reads and answers.

It needs the standard library alone, because it also runs in environments without this project.

Each line of standard input is the path of a case: a folder with ``train.csv``, ``validation.csv``,
``test.csv`` and ``case.json`` (names of the text columns, the label column and the classes of the clean
data). The answer is one line of JSON: the names of what the worker raises an alarm for, and the rows that
each of its findings names.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Rows = list[tuple[str, int]]
"""Split, and number of the row in its file, from 0."""


@dataclass
class Findings:
    """Findings on one case.

    Attributes:
        alarms: Findings that a user is told without looking for them: failed checks, or issues of which there
            are any.
        rows: Rows by finding, also of a check that passes.
        stopped: Message of the error that ended the work, if any.
        seconds: Wall time.
    """

    alarms: list[str] = field(default_factory=list)
    rows: dict[str, Rows] = field(default_factory=dict)
    stopped: str | None = None
    seconds: float = 0.0


def serve(look: Callable[[Path, dict[str, Any]], Findings]) -> None:
    """Answer each line of standard input. What libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        folder, started = Path(line.strip()), time.perf_counter()
        case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
        try:
            findings = look(folder, case)
        except Exception as error:  # an answer, too: the tool stops at this data
            traceback.print_exc()
            findings = Findings(stopped=f"{type(error).__name__}: {error}"[:500])
        findings.seconds = round(time.perf_counter() - started, 2)
        print(json.dumps(asdict(findings)), file=answers, flush=True)


def read_frames(folder: Path) -> dict[str, Any]:
    """Read the splits as a pandas user does: every cell as text, empty ones too."""
    import pandas as pd

    return {
        split: pd.read_csv(folder / f"{split}.csv", dtype=str, keep_default_na=False)
        for split in ("train", "validation", "test")
    }
